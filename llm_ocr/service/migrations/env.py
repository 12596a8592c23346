"""Run the migrations on the connection that `Database.migrate` passes."""

from alembic import context

from llm_ocr.service.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
