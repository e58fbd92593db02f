"""First cell of a learner's notebook: installs Rank Zero where it is missing; `hosted_notebooks.py` copies its code."""

# Colab, Kaggle and other hosted services: this cell installs Rank Zero. After `make notebook-NN` it does nothing.
import importlib.metadata
import importlib.util
import os
import subprocess
import sys

REPOSITORY = os.environ.get("RANKZERO_REPOSITORY", "")  # the address of Rank Zero, or the folder of a clone

if importlib.util.find_spec("rankzero") is None:
    print("Installing Rank Zero and its libraries. This can take some minutes.")
    folder = ".." if os.path.exists("../code/rankzero") else "rank-zero"
    clone = ["git", "clone", "--depth", "1", REPOSITORY, folder]
    install = [sys.executable, "-m", "pip", "install", "--editable", folder]
    for command in [install] if os.path.exists(folder) else [clone, install]:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(done.stderr)
            raise SystemExit("Rank Zero was not installed. Check the network and REPOSITORY, then run this cell again.")
    sys.path.append(os.path.abspath(f"{folder}/code"))
    if "numpy" in sys.modules and sys.modules["numpy"].__version__ != importlib.metadata.version("numpy"):
        raise SystemExit("Rank Zero is installed. Restart the session, then run all cells again.")
