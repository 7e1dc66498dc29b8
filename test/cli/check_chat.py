"""The chat, driven through a pseudo terminal: turns, commands, editing, history, Ctrl-C and Ctrl-D."""
import os
import pty
import re
import select
import sys
import tempfile
import time

from program import PRESTAGE, document, golden, main

MODEL = golden("qwen3-q8_0")


class Chat:
    """A running `prestage run` whose terminal is ours."""

    def __init__(self, folder, *flags, model=MODEL):
        self.text = b""
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.environ.update(XDG_STATE_HOME=folder, TERM="xterm", LC_ALL="C.UTF-8")
            os.execv(PRESTAGE, [PRESTAGE, "run", model, "--temp", "0", "-n", "12", "--stats", *flags])

    def until(self, words, seconds=60):
        """What came up to and with the words."""
        words = words.encode()
        end = time.time() + seconds
        while words not in self.text:
            ready = select.select([self.terminal], [], [], max(0, end - time.time()))[0]
            assert ready, f"no {words!r} in {self.text!r}"
            try:
                block = os.read(self.terminal, 4096)
            except OSError:
                block = b""
            assert block, f"the chat ended before {words!r}: {self.text!r}"
            self.text += block
        cut = self.text.index(words) + len(words)
        found, self.text = self.text[:cut], self.text[cut:]
        return found.decode(errors="replace")

    def prompt(self, seconds=60):
        """Reads on until the chat waits: a prompt is the last thing on the screen and nothing follows it."""
        end = time.time() + seconds
        while time.time() < end:
            if select.select([self.terminal], [], [], 0.2)[0]:
                block = os.read(self.terminal, 4096)
                assert block, f"the chat ended: {self.text!r}"
                self.text += block
            elif re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", self.text).rstrip(b"\r").endswith((b"> ", b". ")):
                self.text = b""
                return
        raise AssertionError(f"no prompt in {self.text!r}")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def turn(self, text):
        """New tokens, tokens in the context afterwards."""
        self.type(text + "\n")
        found = re.search(r"\[(\d+) new tokens in .* s, (\d+) in the context", self.until("tok/s]"))
        self.prompt()
        return int(found.group(1)), int(found.group(2))

    def end(self, text="\x04"):
        """The exit code. What is typed is typed again when nothing comes of it."""
        seen = b""
        for _ in range(30):
            if text:
                self.type(text)
            done, status = 0, 0
            while select.select([self.terminal], [], [], 2)[0]:
                try:
                    seen += os.read(self.terminal, 4096)
                except OSError:
                    done, status = os.waitpid(self.process, 0)
                    break
            if done:
                os.close(self.terminal)
                code = os.waitstatus_to_exitcode(status)
                print(f"ended with {code}: {seen!r}")
                return code
        raise AssertionError(f"the chat does not end: {seen!r}")


def opened(folder, *flags, **keywords):
    chat = Chat(folder, *flags, **keywords)
    chat.until("/help")
    chat.prompt()
    return chat


def prompt_tokens(messages):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(messages)
        file.flush()
        return len(document("tokenize", MODEL, "--template", file.name)["tokens"])


def test_turns_share_what_they_have_in_common():
    with tempfile.TemporaryDirectory() as folder:
        chat = opened(folder)
        new, held = chat.turn("one")
        assert new == prompt_tokens('[{"role": "user", "content": "one"}]'), new
        again, later = chat.turn("two")
        assert later > held and again <= later - new, (new, held, again, later)
        chat.type("/clear\n")
        chat.prompt()
        assert chat.turn("one") == (new, held)
        assert chat.end() == 0


def test_commands():
    with tempfile.TemporaryDirectory() as folder:
        chat = opened(folder, "-sys", "be brief")
        chat.type("/help\n")
        chat.until("/system")
        chat.prompt()
        chat.type("/system\n")
        chat.until("\r\nbe brief\r\n")
        chat.prompt()
        chat.type("/system other words\n")
        chat.prompt()
        new, _ = chat.turn("one")
        assert new == prompt_tokens('[{"role": "system", "content": "other words"}, '
                                    '{"role": "user", "content": "one"}]'), new
        chat.type("/qiut\n")
        assert "/quit" in chat.until("text\r\n")
        chat.prompt()
        assert chat.end("/quit\n") == 0


def test_lines_and_history():
    with tempfile.TemporaryDirectory() as folder:
        chat = opened(folder)
        chat.type("gr\u00fc\u00dfe \\\n")
        chat.prompt()
        new, _ = chat.turn("zwei")
        assert new == prompt_tokens('[{"role": "user", "content": "gr\u00fc\u00dfe \\nzwei"}]'), new
        assert chat.end() == 0
        path = os.path.join(folder, "prestage", "history")
        assert os.stat(path).st_mode & 0o077 == 0, oct(os.stat(path).st_mode)
        chat = opened(folder)
        chat.type("\x1b[A")  # the line before, of the other session
        chat.until("zwei")
        assert chat.end("\x15\x04") == 0


def test_interrupt_at_the_prompt_drops_the_line():
    with tempfile.TemporaryDirectory() as folder:
        chat = opened(folder)
        for _ in range(3):
            chat.type("dropped\x03")
            chat.until("leaves")
            chat.prompt()
        new, _ = chat.turn("one")
        assert new == prompt_tokens('[{"role": "user", "content": "one"}]'), new
        assert chat.end() == 0


def test_a_full_context_is_said():
    with tempfile.TemporaryDirectory() as folder:
        chat = opened(folder, "-c", "64")
        chat.type("x" * 100 + "\n")
        assert "context 64" in chat.until("/clear")
        chat.prompt()
        chat.turn("one")  # the long message has been taken back
        assert chat.end() == 0


def test_a_model_without_a_template():
    with tempfile.TemporaryDirectory() as folder:
        chat = Chat(folder, model=golden("mixtral-q8_0"))
        chat.until("prestage: the model has no chat template")
        assert chat.end("") == 2


main(sys.modules[__name__])
