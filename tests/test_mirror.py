"""The tests mirror the package: where the tests of a module are, for every module."""

from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "llm_ocr"
# Rooms whose tests follow what they do, not their modules.
NOT_MIRRORED = ("engines/embedded", "parsing/schemas")
# Modules without a test file of their name, and the file that tests them through others.
TESTED_BY = {
    "auxiliary/barcode_regions": "auxiliary/test_barcodes",
    "auxiliary/options": "auxiliary/test_expectations",
    "batch/comparison_files": "batch/test_compare_runs",
    "batch/destination": "batch/test_stores",
    "batch/events": "batch/test_progress",
    "batch/executor": "batch/test_worker",
    "batch/maintenance": "batch/test_compacting",
    "batch/page_counting": "sources/test_datasets",
    "batch/requests": "batch/test_figure_tasks",
    "batch/rework": "batch/test_retry",
    "batch/session_log": "report/test_sessions",
    "batch/stage_runner": "batch/test_shard_worker",
    "batch/stages": "batch/test_shard_worker",
    "classification/evaluation": "cli/test_classifier",
    "classification/explanation": "cli/test_classifier",
    "classification/neighbors": "classification/test_calibration",
    "classification/onnx_embedder": "classification/test_embedders",
    "classification/options": "service/test_classify",
    "classification/pages": "cli/test_classifier",
    "cli/batch_job": "platforms/test_batch_job",
    "cli/conversion": "cli/test_convert",
    "cli/engine": "docs/test_running",
    "cli/export": "cli/test_convert",
    "cli/help": "cli/test_commands",
    "cli/inference": "router/test_config",
    "cli/launch": "platforms/test_launch_requests",
    "cli/mcp": "integrations/test_mcp_server",
    "cli/options": "cli/test_commands",
    "cli/output": "cli/test_commands",
    "cli/parse": "cli/test_commands",
    "cli/service": "cli/test_serve",
    "cli/status": "service/test_metrics",
    "document/auxiliary": "service/test_auxiliary",
    "document/auxiliary_questions": "service/test_auxiliary",
    "document/classify": "service/test_classify",
    "document/checkpoints": "document/test_processor",
    "document/configure": "document/test_converter",
    "document/describe": "batch/test_figure_tasks",
    "document/figure_tasks": "batch/test_figure_tasks",
    "document/figures": "document/test_assemble",
    "document/items": "batch/test_retry_ladder",
    "document/markdown": "document/test_assemble",
    "document/page": "batch/test_retry_ladder",
    "document/record": "batch/test_parse_run",
    "documents": "sources/test_inputs",
    "engines/commands": "engines/test_targets",
    "engines/gpu": "engines/test_vllm",
    "engines/metrics": "batch/test_telemetry",
    "engines/session": "batch/test_bad_servers",
    "engines/supervisor": "engines/test_launch",
    "evaluation/ink_coverage": "evaluation/test_diagnostics",
    "evaluation/layout_checks": "evaluation/test_diagnostics",
    "evaluation/olmocr_bench/formula_rendering": "evaluation/olmocr_bench/test_math_rule",
    "evaluation/olmocr_bench/page_view": "evaluation/olmocr_bench/test_rules",
    "evaluation/olmocr_bench/table_rule": "evaluation/olmocr_bench/test_rules",
    "evaluation/predictions": "evaluation/test_ground_truth",
    "evaluation/reporters/files": "evaluation/reporters/test_html",
    "evaluation/reporters/json": "cli/test_evaluate",
    "evaluation/reporters/text": "cli/test_evaluate",
    "evaluation/runner": "evaluation/test_comparison",
    "evaluation/scripts": "evaluation/test_diagnostics",
    "export/document": "export/test_run",
    "export/formats": "export/test_run",
    "export/markup": "export/test_alto",
    "export/pdf_text": "export/test_pdf",
    "export/pdf_update": "export/test_pdf",
    "export/pdf_writer": "export/test_pdf",
    "export/source": "export/test_run",
    "inference/address": "inference/test_client",
    "inference/model_item": "batch/test_retry_ladder",
    "inference/responses": "inference/test_client",
    "inference/retry_ladder": "batch/test_retry_ladder",
    "inference/text_rows": "inference/test_quality",
    "inference/tokens": "inference/test_streaming",
    "integrations/loaded_texts": "integrations/test_langchain",
    "messages": "test_exit_codes",
    "models/bbox_html": "models/test_qwen_vl",
    "models/files": "models/test_catalog",
    "models/generic": "models/test_catalog",
    "models/geometry": "models/test_profile",
    "models/two_step": "document/test_page_elements",
    "parsing/chunks": "batch/test_parse_run",
    "parsing/fuzzy": "parsing/test_evidence",
    "parsing/json_repair": "parsing/test_json_answers",
    "parsing/leaves": "parsing/test_merging",
    "parsing/local_modules": "parsing/test_loading",
    "parsing/references": "parsing/test_json_schema_validator",
    "parsing/schema": "parsing/test_loading",
    "parsing/schema_fields": "parsing/test_evidence_support",
    "parsing/synonyms": "parsing/test_evidence",
    "parsing/text_index": "parsing/test_evidence",
    "parsing/text_spans": "parsing/test_evidence",
    "parsing/tolerant_model": "parsing/test_pydantic_validator",
    "parsing/validation": "parsing/test_pydantic_validator",
    "parsing/value_equality": "parsing/test_disagreement",
    "platforms/aws": "platforms/test_aws_deploy",
    "platforms/base": "platforms/test_cluster",
    "platforms/cloud_logging": "platforms/test_cloud_run",
    "platforms/cloud_run_errors": "platforms/test_cloud_run_failures",
    "platforms/cloud_run_job": "platforms/test_cloud_run",
    "platforms/costs/capacity_table": "platforms/costs/test_capacity",
    "platforms/costs/estimate_table": "cli/test_plan",
    "platforms/costs/estimates": "platforms/costs/test_prices",
    "platforms/costs/price_files": "platforms/costs/test_prices",
    "platforms/costs/toml_files": "platforms/costs/test_prices",
    "platforms/hf_errors": "platforms/test_hf_jobs_failures",
    "platforms/hf_task": "platforms/test_hf_jobs",
    "platforms/ray_executor": "platforms/test_ray",
    "platforms/registry": "platforms/test_launching",
    "platforms/sagemaker_task": "platforms/test_sagemaker",
    "platforms/uploads": "platforms/test_launching",
    "platforms/worker_config": "platforms/test_cluster",
    "records": "sources/test_images",
    "report/descriptions": "report/test_dataset_card",
    "report/doubts": "report/test_dataset_card",
    "report/integrity": "report/test_status",
    "report/listings": "cli/test_listings",
    "report/record_counts": "report/test_record_files",
    "report/record_csv": "report/test_record_files",
    "report/record_types": "report/test_record_files",
    "report/run_usage": "batch/test_compare_runs",
    "report/summary": "batch/test_bad_input",
    "retry": "inference/test_client",
    "router/metrics": "router/test_serving",
    "router/supervision": "router/test_serving",
    "service/document_progress": "service/test_worker",
    "service/document_task": "service/test_worker",
    "service/gateway/catalog": "service/gateway/test_app",
    "service/gateway/login_pages": "service/gateway/test_review_pages",
    "service/gateway/models": "service/gateway/test_documents",
    "service/gateway/offline_docs": "service/gateway/test_app",
    "service/gateway/review_view": "service/gateway/test_review_pages",
    "service/gateway/uploads": "service/test_uploads",
    "service/gateway/web_pages": "service/gateway/test_review_pages",
    "service/gateway/webhooks": "service/gateway/test_app",
    "service/mlflow_registry": "service/test_registry",
    "service/migrations/env": "service/test_database",
    "service/migrations/versions/0001_initial_tables": "service/test_database",
    "service/migrations/versions/0002_split_documents": "service/test_database",
    "service/migrations/versions/0003_status_and_logins": "service/test_database",
    "service/migrations/versions/0004_traces": "service/test_database",
    "service/pipeline_steps": "service/test_worker",
    "service/review/desk": "service/gateway/test_review_api",
    "service/review/edits": "service/gateway/test_review_api",
    "service/review/exports": "cli/test_review",
    "service/review/page_classes": "service/gateway/test_review_api",
    "service/review/page_words": "service/gateway/test_review_pages",
    "service/review/reviews": "service/gateway/test_review_api",
    "service/review/typed_values": "service/gateway/test_review_pages",
    "service/schema": "service/test_database",
    "service/sessions": "service/gateway/test_review_pages",
    "service/serving": "cli/test_serve",
    "service/splitting": "service/test_children",
    "service/store_registry": "service/test_registry",
    "service/submission": "cli/test_submit",
    "sources/dataset_rows": "sources/test_datasets",
    "sources/formats": "sources/test_images",
    "sources/names": "sources/test_listing",
    "sources/page_transform": "sources/test_pdf",
    "sources/parquet": "sources/test_datasets",
    "sources/raster": "sources/test_decoding",
    "sources/render_protocol": "sources/test_render_worker",
    "sources/row_batches": "sources/test_datasets",
    "sources/row_reader": "sources/test_datasets",
    "sources/text_layer_quality": "sources/test_text_layer",
    "sources/text_lines": "sources/test_text_layer",
    "sources/webdataset": "sources/test_datasets",
    "storage/hub_address": "storage/test_hub",
    "storage/hub_buckets": "storage/test_hub",
    "storage/hub_client": "storage/test_hub",
    "storage/objects": "storage/test_buckets",
    "storage/protocol": "storage/test_store",
    "storage/ranges": "storage/test_store",
    "tables/commit_index": "tables/test_generations",
    "tables/compact": "batch/test_compacting",
    "tables/counts": "tables/test_commits",
    "tables/data_files": "tables/test_generations",
    "tables/merge": "batch/test_compacting",
    "tables/plan": "batch/test_planning",
    "tables/read": "tables/test_commits",
    "tables/rows": "document/test_assemble",
    "tables/schema": "document/test_assemble",
    "tables/user_schemas": "report/test_record_files",
    "tracing": "service/test_tracing",
    "text/notation": "text/test_numbers",
    "yaml_files": "router/test_config",
}


def modules() -> set[str]:
    paths = {path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py")}
    return {
        path.as_posix()
        for path in paths
        if not path.name.startswith("__") and not path.as_posix().startswith(NOT_MIRRORED)
    }


def own_test(module: str) -> Path:
    path = TESTS / module
    return path.with_name(f"test_{path.name}.py")


def test_every_module_has_a_test_file_of_its_name_or_is_listed_with_another() -> None:
    found = modules()
    assert found
    missing = {module for module in found if not own_test(module).exists()}
    assert sorted(missing - TESTED_BY.keys()) == [], "name a test file for each in TESTED_BY"
    assert sorted(TESTED_BY.keys() - missing) == [], "these are gone, or have a test file now"


def test_listed_test_files_exist() -> None:
    absent = {name for name in TESTED_BY.values() if not (TESTS / f"{name}.py").is_file()}
    assert sorted(absent) == []


def test_a_test_file_lies_in_one_mirror_of_its_room() -> None:
    """`tests/engines/test_embedded_x.py` would be a second room for `tests/engines/embedded/`."""
    folders = [path.parent for path in TESTS.rglob("__init__.py")]
    assert folders
    doubles = [
        path.relative_to(TESTS).as_posix()
        for folder in folders
        for path in folder.parent.glob(f"test_{folder.name}_*.py")
    ]
    assert sorted(doubles) == []
