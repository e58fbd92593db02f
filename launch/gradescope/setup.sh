#!/usr/bin/env bash
# Installs Rank Zero. Gradescope runs this once per assignment, as root, in the image that it builds. The zip's content
# is in `source` then. handbook/for-instructors.md says how large the container must be.
set -euo pipefail
cd "${AUTOGRADER:-/autograder}/source"

apt-get update
apt-get install -y bubblewrap python3-venv software-properties-common
python=python3
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then # Ubuntu 22.04 has Python 3.10
    add-apt-repository -y ppa:deadsnakes/ppa
    apt-get install -y python3.12 python3.12-venv
    python=python3.12
fi

"$python" -m venv .venv
index=$(python3 -c 'import json; print(json.load(open("settings.json"))["index"])')
if [[ -n $index ]]; then # torch's index of CPU builds: the default build brings gigabytes for GPUs
    grep -E '^torch(vision)?==' rankzero/requirements.txt > torch.txt
    .venv/bin/pip install --no-cache-dir --index-url "$index" -r torch.txt
fi
.venv/bin/pip install --no-cache-dir -e rankzero

# Without a sandbox, submissions run as nobody, a user that must read Python and the probes, but no answers or judges.
chmod -R go+rX .venv rankzero
chmod -R o= rankzero/solutions rankzero/tests/lab-*/{checks,right_answers}.py settings.json
