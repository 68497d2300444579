"""Between text and tokens: a tokenizer and the model's chat template."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from workbench.drafting.config import read_config
from workbench.errors import InputError


class Text:
    """Encodes chats as the model was trained to see them, decodes its tokens."""

    def __init__(
        self, tokenizer: Tokenizer, template: str | None, names: dict[str, str] | None = None
    ):
        """``names``: what the template calls special tokens, ``bos_token`` and the like.

        Raises InputError for a template that is none.
        """
        self.tokenizer, self._names = tokenizer, names or {}
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        try:
            self._template = None if template is None else environment.from_string(template)
        except TemplateError as error:
            raise InputError(
                f"is no template that can be read ({error})",
                place="chat_template",
                mend="restore the model's files",
            ) from error

    @classmethod
    def byte_level(
        cls,
        tokens: Sequence[str],
        merges: Sequence[tuple[str, str]],
        *,
        special: Sequence[str],
        single_digits: bool,
        template: str | None,
    ) -> Text:
        """A byte-level BPE from its vocabulary (in order of id) and merges."""
        vocabulary = {token: index for index, token in enumerate(tokens)}
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=list(merges)))
        level = pre_tokenizers.ByteLevel(add_prefix_space=False)
        digits = [pre_tokenizers.Digits(individual_digits=True)] if single_digits else []
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*digits, level])
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.add_special_tokens(
            [AddedToken(token, special=True, normalized=False) for token in special]
        )
        return cls(tokenizer, template)

    @classmethod
    def from_folder(cls, folder: str | os.PathLike) -> Text:
        """From a Hugging Face folder: tokenizer.json, tokenizer_config.json. Raises InputError."""
        path = Path(folder) / "tokenizer.json"
        try:
            tokenizer = Tokenizer.from_file(os.fspath(path))
        except Exception as error:  # the library raises bare Exception
            raise InputError(
                f"cannot be read ({error})", file=path, mend="give a model's whole folder"
            ) from error
        settings, template = {}, None
        settings_file = path.with_name("tokenizer_config.json")
        template_file = path.with_name("chat_template.jinja")
        if settings_file.is_file():
            settings = read_config(settings_file)
            template = settings.get("chat_template")
        if isinstance(template, list):  # several, each with its name
            template = {
                one.get("name"): one.get("template") for one in template if isinstance(one, dict)
            }.get("default")
        if template_file.is_file():
            template = template_file.read_text(encoding="utf-8")
        names = {}
        for name in ("bos_token", "eos_token"):
            value = settings.get(name)
            names[name] = (value or {}).get("content", "") if isinstance(value, dict) else value
        return cls(tokenizer, template if isinstance(template, str) else None, names)

    def chat(self, turns: Sequence[str]) -> list[int]:
        """Tokens of a chat in which user and assistant alternate, ready for the next answer.

        Without a chat template the turns are joined by blank lines. Raises InputError if the
        template refuses them.
        """
        roles = ("user", "assistant")
        messages = [{"role": roles[i % 2], "content": turn} for i, turn in enumerate(turns)]
        if self._template is None:
            return self.encode("\n\n".join(turns))
        try:
            text = self._template.render(
                messages=messages, add_generation_prompt=True, **self._names
            )
        except TemplateError as error:
            raise InputError(
                f"the chat template refuses a prompt ({error})",
                place="chat_template",
                mend="give other prompts",
            ) from error
        return self.encode(text)

    def encode(self, text: str) -> list[int]:
        """Token ids; special tokens in the text count as such, none are added."""
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of ``tokens``, special tokens left out."""
        return self.tokenizer.decode(list(tokens), skip_special_tokens=True)
