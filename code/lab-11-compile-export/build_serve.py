"""Lab 11: compiles serve.cpp with the headers and libraries of torch, and runs it on an AOTInductor package.

python build_serve.py runs/lab-11-001/package.pt2      # a minute, for a C++ compiler
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from torch.utils.cpp_extension import include_paths, library_paths

SOURCE = Path(__file__).with_name("serve.cpp")


def compiler_command(program: Path) -> list[str]:
    """The command that makes `program` of serve.cpp."""
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    headers = [f"-I{path}" for path in include_paths()]
    libraries = [word for path in library_paths() for word in (f"-L{path}", f"-Wl,-rpath,{path}")]
    names = ["-ltorch", "-ltorch_cpu", "-lc10"]
    return [
        os.environ.get("CXX", "g++"),
        "-std=c++20",
        abi,
        *headers,
        str(SOURCE),
        "-o",
        str(program),
        *libraries,
        *names,
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Lab 11: compiles serve.cpp, and runs it on an AOTInductor package.")
    parser.add_argument("package", type=Path, help="a package that train_compiled.py --package has built")
    package = parser.parse_args(arguments).package
    if not package.is_file():
        parser.exit(2, f"{parser.prog}: {package} is no file: build it with train_compiled.py --package.\n")
    program = package.with_name("serve")
    command = compiler_command(program)
    if not shutil.which(command[0]):
        parser.exit(2, f"{parser.prog}: there is no C++ compiler {command[0]}: install one, or name one in CXX.\n")
    done = subprocess.run(command, check=False)
    return done.returncode or subprocess.run([program, package], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
