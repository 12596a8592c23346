"""llm_ocr within other programs: an MCP server for assistants, and loaders of documents."""
