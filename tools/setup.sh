#!/usr/bin/env bash
# Makes .venv with the newest Python of at least 3.11 on the path and installs the project in it.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=$(cksum < pyproject.toml)
if [ -x .venv/bin/python ] && [ "$(cat .venv/installed 2>/dev/null)" = "$wanted" ]; then exit 0; fi
if [ ! -x .venv/bin/python ]; then
  for candidate in python3 python python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      python=$candidate; break
    fi
  done
  if [ -z "${python:-}" ]; then echo "needlex needs Python 3.11 or newer on the path" >&2; exit 1; fi
  echo "making .venv with $("$python" --version)"
  "$python" -m venv .venv
fi
echo "installing needlex and its development tools into .venv (a minute or two)"
.venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
echo "$wanted" > .venv/installed
