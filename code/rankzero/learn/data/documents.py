"""Documents: the paragraphs of a text, or the files of a folder, for training or for validation."""

from pathlib import Path

from rankzero.errors import UserError
from rankzero.learn.data.corpus import load_text

VALIDATE_EVERY = 10  # documents: parts that are spread over the text are alike, even if its subjects change


def load_documents(spec: str) -> tuple[list[str], list[str]]:
    """Returns the documents to train on and those to validate, in their order.

    `spec` is 'embedded', 'tinyshakespeare' or a UTF-8 text file, whose documents are its paragraphs: they end at an
    empty line. Or it is a folder, whose documents are all of its files, of its subfolders too. UserError for an
    unusable text.
    """
    if (folder := Path(spec)).is_dir():
        files = sorted(path for path in folder.rglob("*") if path.is_file() and not _hidden(path.relative_to(folder)))
        documents = [_file_of_folder(path, spec) for path in files]
    else:
        documents = load_text(spec).split("\n\n")
    documents = [document for document in documents if document.strip()]
    if len(documents) < 2:
        number = "no document" if not documents else "one document"
        raise UserError(
            f"{spec} has {number}: name a folder with at least two text files, or a text of two paragraphs."
        )
    held_out = set(range(0, len(documents), VALIDATE_EVERY))
    train = [document for number, document in enumerate(documents) if number not in held_out]
    return train, [documents[number] for number in sorted(held_out)]


def _file_of_folder(path: Path, folder: str) -> str:
    try:
        return load_text(str(path))
    except UserError as error:
        reason = str(error).removesuffix(": pass a text file.")
        raise UserError(f"{reason}: move this file out of the folder {folder}.") from None


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
