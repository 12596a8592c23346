# GPU stages: vLLM as its project ships it, and llm_ocr beside it. From the root of the repository:
#
#   docker build -f containers/gpu.Dockerfile -t llm-ocr:gpu .
#
# See docs/containers.md. llm_ocr has an environment of its own, so that neither's packages change the
# other's; both stages have the same base, as that environment refers to the base's Python.
ARG BASE=vllm/vllm-openai:v0.32.0

FROM ${BASE} AS build
ARG UV_VERSION=0.13.8
# What uv.lock says is installed, with the base's Python, and compiled: the user can't do that later.
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
    --extra cpu --extra hub --extra aws
COPY LICENSE README.md ./
COPY llm_ocr llm_ocr
RUN /tmp/uv/bin/uv sync --frozen --no-default-groups --no-editable \
    --extra cpu --extra hub --extra aws

FROM ${BASE}
# poppler draws pages that pdfium can't. Its version is the base's: stable releases keep no others.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends poppler-utils \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home llm-ocr \
    && install --directory --owner=llm-ocr /work \
    && ln --symbolic /opt/llm-ocr/bin/llm-ocr /opt/llm-ocr/bin/llm-ocr-job \
        /opt/llm-ocr/bin/run-batch-job /usr/local/bin/
COPY --from=build /opt/llm-ocr /opt/llm-ocr
# `python3` stays the base's, which has vLLM; llm_ocr's is /opt/llm-ocr/bin/python.
ENV PYTHONUNBUFFERED=1 \
    VLLM_NO_USAGE_STATS=1
# SageMaker's folders are root's: for it, --build-arg RUN_AS=root. The worker is llm-ocr's there too.
ARG RUN_AS=llm-ocr
USER ${RUN_AS}
WORKDIR /work
ENTRYPOINT ["llm-ocr-job"]
CMD ["--help"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="llm_ocr" \
      org.opencontainers.image.description="Batch OCR on GPUs, with vLLM" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
