# The CPU image, with the embedded engine. From the root of the repository:
#
#   docker build -f containers/cpu.Dockerfile -t llm-ocr:cpu .
#
# See docs/containers.md. Both stages have the same base, because the environment of the first uses
# the base's Python.
ARG BASE=python:3.12.12-slim-bookworm

FROM ${BASE} AS build
ARG UV_VERSION=0.13.8
# Installs the packages of uv.lock with the base's Python and compiles them: the user can't later.
ENV UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_NO_CACHE=1 \
    UV_PROJECT_ENVIRONMENT=/opt/llm-ocr \
    UV_PYTHON=python3 \
    UV_PYTHON_DOWNLOADS=never
RUN python3 -m pip install --no-cache-dir --target /tmp/uv "uv==${UV_VERSION}"
WORKDIR /src
COPY pyproject.toml uv.lock ./
RUN /tmp/uv/bin/uv sync --frozen --no-default-groups --no-install-project \
    --extra cpu --extra hub --extra aws --extra service
COPY LICENSE README.md ./
COPY llm_ocr llm_ocr
RUN /tmp/uv/bin/uv sync --frozen --no-default-groups --no-editable \
    --extra cpu --extra hub --extra aws --extra service

FROM ${BASE}
# poppler renders pages that pdfium can't. Stable releases keep only one version of it.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends poppler-utils \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home llm-ocr \
    && install --directory --owner=llm-ocr /work
COPY --from=build /opt/llm-ocr /opt/llm-ocr
ENV PATH=/opt/llm-ocr/bin:$PATH \
    PYTHONUNBUFFERED=1
# SageMaker's folders belong to root: --build-arg RUN_AS=root. The worker still runs as llm-ocr.
ARG RUN_AS=llm-ocr
USER ${RUN_AS}
WORKDIR /work
ENTRYPOINT ["llm-ocr-job"]
CMD ["--help"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="llm_ocr" \
      org.opencontainers.image.description="Batch OCR on CPUs, with the embedded engine" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
