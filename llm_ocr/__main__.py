"""`python -m llm_ocr` is `llm-ocr`."""

from llm_ocr.cli.commands import main

main()
