"""A terminal as far as the live view needs one: text, line ends, cursor up, erase, colours ignored."""

import re

from rich.cells import cell_len

_TOKEN = re.compile(
    r"\x1b\[(?P<args>[0-9;?]*)(?P<code>[A-Za-z])|(?P<control>[\x00-\x1f\x7f])|(?P<text>[^\x00-\x1f\x7f]+)"
)


class Terminal:
    """Holds what would stand on an endless screen of `width` columns."""

    def __init__(self, width):
        self.width = width
        self.rows = [[]]
        self.row = 0
        self.column = 0
        self.unknown = []

    def feed(self, data):
        for match in _TOKEN.finditer(data.replace("\r\n", "\n")):
            if match["text"]:
                self._write(match["text"])
            elif match["control"]:
                self._control(match["control"])
            else:
                self._command(match["args"], match["code"])
        return self

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.rows).strip("\n")

    def _write(self, text):
        for character in text:
            cells = [character, *[""] * (cell_len(character) - 1)]
            if self.column + len(cells) > self.width:
                self._control("\n")
            row = self.rows[self.row]
            row += [" "] * (self.column - len(row))
            row[self.column : self.column + len(cells)] = cells
            self.column += len(cells)

    def _control(self, character):
        if character == "\n":
            self.row, self.column = self.row + 1, 0
            if self.row == len(self.rows):
                self.rows.append([])
        elif character == "\r":
            self.column = 0
        else:
            self.unknown.append(character)

    def _command(self, args, code):
        if code == "A":
            self.row = max(0, self.row - int(args or 1))
        elif code == "K":
            self.rows[self.row] = []
        elif code not in "mhl":
            self.unknown.append(f"{args}{code}")
