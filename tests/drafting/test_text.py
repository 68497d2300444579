"""Tokenizer and chat template of a Hugging Face folder."""

import json

import pytest

pytest.importorskip("tokenizers", reason="the extra 'drafting'")

from tests.drafting.samples import TEMPLATE, save_tokenizer
from workbench.drafting.text import Text
from workbench.errors import InputError


@pytest.fixture
def folder(tmp_path):
    save_tokenizer(tmp_path)
    return tmp_path


def settings(folder, **fields):
    (folder / "tokenizer_config.json").write_text(json.dumps(fields))


@pytest.mark.parametrize(
    "template",
    [TEMPLATE, [{"name": "tools", "template": "-"}, {"name": "default", "template": TEMPLATE}]],
)
@pytest.mark.parametrize("end", ["<|end|>", {"content": "<|end|>"}])
def test_the_chat_is_the_templates(folder, template, end):
    settings(folder, chat_template=template, eos_token=end)
    text = Text.from_folder(folder)
    tokens = text.chat(["hé"])
    assert tokens[0] == 256 and tokens[-1] == 257 and len(tokens) == 2 + 3
    assert text.decode(tokens) == "hé"


def test_a_template_file_comes_first_and_without_one_turns_are_joined(folder):
    text = Text.from_folder(folder)
    assert text.decode(text.chat(["one", "two"])) == "one\n\ntwo"
    settings(folder, chat_template=TEMPLATE)
    (folder / "chat_template.jinja").write_text("[{{ messages[0]['content'] }}]")
    text = Text.from_folder(folder)
    assert text.decode(text.chat(["one"])) == "[one]"


@pytest.mark.parametrize(
    "template, message",
    [
        ("{% for", "chat_template: is no template that can be read"),
        ("{{ raise_exception('no') }}", "chat_template: the chat template refuses a prompt"),
    ],
)
def test_a_bad_template_is_one_line(folder, template, message):
    settings(folder, chat_template=template)
    with pytest.raises(InputError, match=message):
        Text.from_folder(folder).chat(["hi"])


@pytest.mark.parametrize("content", ["{", "[]"])
def test_settings_that_cannot_be_read_are_named(folder, content):
    (folder / "tokenizer_config.json").write_text(content)
    with pytest.raises(InputError, match=r"tokenizer_config\.json: is no "):
        Text.from_folder(folder)
