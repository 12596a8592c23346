"""The image of the job definitions of the tests' AWS Batch, and the secret that they name."""

import sys

IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/llm-ocr:0.1.0-gpu"
SECRET = "arn:aws:secretsmanager:us-east-1:123456789012:secret:llm-ocr/HF_TOKEN"
ENTRY = (sys.executable, "-m", "llm_ocr.platforms.entrypoint")
