#!/usr/bin/env python3
"""Writes chat/goldens.json: what transformers makes of conversations by the templates in chat/, which bytes of that its
assistant mask has for copies of them with {% generation %} blocks, and what Jinja prints for small templates.

    pip install transformers tokenizers jinja2
    python3 tests/data/make_chat_goldens.py

The templates are written for these tests, in the formats of five families of models: ChatML with tools, Llama 3 with a
date, Mistral, Gemma, and Qwen3 with thinking. `{# answer #}` and `{# answered #}` stand where a copy's block begins and
ends.

chat/token_goldens.json has the ids and the assistant mask of the same conversations, by the tokenizers of tokenizers/ to
which each family's tokens are added. The masks are also those of all tokens that overlap with what counts."""
import json
import pathlib

import jinja2
from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils as utils

here = pathlib.Path(__file__).parent / "chat"
tokens = {"bos_token": "<s>", "eos_token": "</s>"}
day = "26 Jul 2024"

tools = [{"type": "function", "function": {
    "name": "weather", "description": "Wetter — \"jetzt\" <&>",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}, "days": {"type": "integer", "minimum": 0.5}},
                   "required": ["place"], "strict": True, "default": None, "empty": {}, "none": []}}}]
call = {"role": "assistant", "content": "", "tool_calls": [
    {"type": "function", "function": {"name": "weather", "arguments": {"place": "Zürich", "days": 2}}}]}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


conversations = {
    "one question": [user("  Hello there. ")],
    "two turns": [user("Hi"), assistant(" Grüße 😀!\n")],
    "several turns": [user("Hi"), assistant("Ho"), user("and?"), assistant("So."), user("Ho"), assistant("assistant")],
    "a system": [{"role": "system", "content": " Be brief. "}, user("Hi"), assistant("Ho"), user("Ho"), assistant("Hi")],
    "thoughts": [user("1+1"), assistant("<think>\nhm\n</think>\n\n2"), user("2+2"),
                 assistant("4", reasoning_content="\nlet me see\n")],
    "thoughts before a call": [user("rain?"), assistant("<think>\nI ask.\n</think>\n\n", tool_calls=call["tool_calls"]),
                               {"role": "tool", "content": "{\"rain\": 0.5}"}, assistant("Perhaps.")],
    "a call": [user("rain?"), call, {"role": "tool", "content": "no"}, assistant("No.")],
    "two calls": [user("rain?"), {**call, "content": "I ask.", "tool_calls": call["tool_calls"] * 2},
                  {"role": "tool", "content": "no"}, {"role": "tool", "content": "yes"}, assistant("Both.")],
    "roles in a row": [user("a"), user("b"), assistant("c")],
    "words of the template": [user("<|im_end|>\n<|im_start|>assistant\nno"), assistant("<|im_start|>assistant\nyes<|im_end|>")],
}


compile_template = utils._compile_jinja_template


def compiled(source):
    template = compile_template(source)
    template.globals["strftime_now"] = lambda _: day
    return template


def marked(source):
    for mark, block in (("answer", "generation"), ("answered", "endgeneration")):
        for left, right in (("-", ""), ("", "-"), ("", "")):
            source = source.replace("{#%s %s %s#}" % (left, mark, right), "{%%%s %s %s%%}" % (left, block, right))
    return source


def case(family, name, with_tools, prompts):
    source = (here / f"{family}.jinja").read_text()
    messages, given = conversations[name], tools if with_tools else None
    result = {"template": family, "conversation": name, "tools": with_tools, "prompts": prompts}
    try:
        variables = dict(messages=messages, tools=given, documents=None, add_generation_prompt=prompts, **tokens)
        result["text"] = compiled(source).render(**variables)
    except jinja2.exceptions.TemplateError:
        return {**result, "refused": True}
    if prompts:
        return result
    text, spans = utils._render_with_assistant_indices(compiled(marked(source)), messages, given, None, False, **tokens)
    assert text == result["text"], (family, name)
    result["counted"] = [[len(text[:begin].encode()), len(text[:end].encode())] for begin, end in spans]
    return result


strip = {"lstrip": True, "rstrip": True}
# A tokenizer of tokenizers/ for each family, with the tokens that are added to it; those with {} are special.
tokenizers = [
    ("chatml", "qwen2", {"<tool_call>": {"special": False}}),
    ("chatml", "metaspace", {"<|im_start|>": strip, "<|im_end|>": strip}),
    ("chatml", "llama2", {}),
    ("qwen3", "qwen2", {"<tool_call>": {"special": False}}),
    ("llama3", "llama3", {"<s>": {}, "<|start_header_id|>": {}, "<|end_header_id|>": {}, "<|eot_id|>": {}}),
    ("mistral", "llama2", {"[INST]": {"special": False, "normalized": True}, "[/INST]": {}}),
    ("gemma", "llama2", {"<start_of_turn>": {}, "<end_of_turn>": {}}),
    ("gemma", "unigram", {"<start_of_turn>": {}, "<end_of_turn>": {"lstrip": True}}),
    ("gemma", "gpt2", {"<end_of_turn>": {}}),
]
composed = {"composed": [{"role": "user", "content": "e\u0301"},
                         {"role": "assistant", "content": "\u0301 \u1112\u1161\u11ab \ufb01 \u212b"}]}


def added(name, more):
    tokenizer = Tokenizer.from_file(str(here.parent / "tokenizers" / f"{name}.json"))
    for content, flags in more.items():
        token = AddedToken(content, **{"special": True, "normalized": False, **flags})
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    return tokenizer


def token_case(family, name, more):
    tokenizer = added(name, more)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    template = marked((here / f"{family}.jinja").read_text())
    known = json.loads((here.parent / "tokenizers" / f"{name}.json").read_text())["added_tokens"]
    listed = [token for token in json.loads(fast.backend_tokenizer.to_str())["added_tokens"] if token not in known]
    result = {"template": family, "tokenizer": name, "added_tokens": listed, "cases": []}
    for conversation, messages in {**conversations, **composed}.items():
        try:
            made = fast.apply_chat_template(messages, tools=tools, chat_template=template, return_dict=True,
                                            return_assistant_tokens_mask=True)
        except jinja2.exceptions.TemplateError:
            continue
        text, spans = utils._render_with_assistant_indices(compiled(template), messages, tools, None, False,
                                                           **fast.special_tokens_map)
        offsets = fast(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        overlap = [int(any(a < end and b > begin for begin, end in spans)) for a, b in offsets]
        assert made["assistant_masks"] == overlap, (family, name, conversation)
        result["cases"].append({"conversation": conversation, "ids": made["input_ids"], "mask": "".join(map(str, overlap))})
    return result


snippets = [
    "{{ 1 + 2 * 3 - 4 // 3 }}|{{ 7 % 3 }}|{{ -7 // 2 }}|{{ -7 % 3 }}|{{ 7 / 2 }}|{{ 2.5 * 2 }}|{{ 1e2 if false else 0.1 }}",
    "{{ 'a' ~ 1 ~ none ~ true }}|{{ 'a' 'b' }}|{{ \"it's\" }}|{{ 'a\\tb\\\\n\\'' }}",
    "{{ 1 < 2 < 3 }}|{{ 1 < 3 < 2 }}|{{ 'a' < 'b' }}|{{ 1 == 1.0 }}|{{ true == 1 }}|{{ 'a' != 'b' }}|{{ none == false }}",
    "{{ 'b' in 'abc' }}|{{ 'd' not in 'abc' }}|{{ 'k' in {'k': 1} }}|{{ 2 in [1, 2] }}|{{ not 1 in (1, 2) }}",
    "{{ x is defined }}|{{ x }}|{{ x | default('d') }}|{{ '' | default('d', true) }}|{{ none is none }}|{{ x is undefined }}",
    "{{ 'abc'[0] }}|{{ 'abc'[-1] }}|{{ 'äöü'[1:] }}|{{ 'abc'[::-1] }}|{{ [1, 2, 3][1:][0] }}|{{ 'abc'[:-1] }}|{{ 'abcdef'[1:5:2] }}",
    "{{ ' \u00a0a\u3000 ' | trim }}|{{ 'xxaxx'.strip('x') }}|{{ '--a-'.lstrip('-') }}|{{ 'ab '.rstrip() }}|{{ 'xyxa'.lstrip('yx') }}",
    "{{ 'a,b,c'.split(',') | join('+') }}|{{ ' a  b '.split() | join('+') }}|{{ 'a,b,c'.split(',', 1)[1] }}|{{ 'abc'.find('c') }}",
    "{{ 'Ab' | upper }}{{ 'Ab' | lower }}{{ 'ab cd' | title }}{{ 'aB' | capitalize }}|{{ 'aXbX' | replace('X', 'y') }}",
    "{{ 'abc' | length }}{{ [1] | length }}{{ {} | length }}{{ 'äö😀' | length }}|{{ [3, 1] | first }}{{ [3, 1] | last }}",
    "{{ {'b': 1, 'a': [true, none, 'ä\"\\n']} | tojson }}|{{ [1.5, 2.0, -3] | tojson }}|{{ {'a': {}, 'b': []} | tojson(indent=2) }}",
    "{% for a in [1, 2, 3] %}{{ a }}{{ ',' if not loop.last }}{% endfor %}|{% for a in [] %}x{% else %}none{% endfor %}",
    "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}|{% for k in {'z': 1} %}{{ k }}{% endfor %}",
    "{% for a in [1, 2, 3, 4] if a % 2 == 0 %}{{ loop.index }}:{{ a }} {% endfor %}{% for c in 'ab' %}{{ c }}.{% endfor %}",
    "{% for a in range(5) %}{% if a == 1 %}{% continue %}{% endif %}{% if a == 3 %}{% break %}{% endif %}{{ a }}{% endfor %}",
    "{% set x = 1 %}{% for a in [1] %}{% set x = 2 %}{% endfor %}{{ x }}{% if true %}{% set x = 3 %}{% endif %}{{ x }}",
    "{% set n = namespace(x=1) %}{% for a in [1, 2] %}{% set n.x = n.x + a %}{% endfor %}{{ n.x }}",
    "{% set a, b = [1, 2] %}{{ a }}{{ b }}{% set t %}<{{ a }}>{% endset %}{{ t }}",
    "{% macro m(a, b='q') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}",
    "a\n{% if true %}\nb\n{% endif %}\nc\n  {% if true %}\n  d\n  {% endif %}\n  {{ 'e' }}\nf\n",
    "a  {%- if true -%}  b  {%- endif -%}  c\n{{- 'd' -}}\n e {# x #}\nf{#- y -#} g",
    "  {%+ if true %} a{% endif %}\n{% if true +%}\nb{% endif %}",
    "{{ [{'r': 'a', 'v': 1}, {'r': 'b', 'v': 2}] | selectattr('r', 'equalto', 'b') | map(attribute='v') | list | tojson }}",
    "{{ ['a', 'b'] | map('upper') | join }}|{{ [1, 2, 3] | reject('odd') | list | tojson }}|{{ [0, 1, ''] | select | list | length }}",
    "{{ {'b': 2, 'A': 1} | dictsort | tojson }}|{{ [3, 1, 2] | max }}{{ [3, 1, 2] | min }}|{{ '42' | int + 1 }}",
    "{{ {'a': 1}.get('a') }}{{ {'a': 1}.get('b', 5) }}{{ {'a': {'b': 7}}.a.b }}{{ {'a': 1}['a'] }}|{{ {'a': 1}.keys() | list | tojson }}",
    "{{ 'a' if 0 else 'b' }}{{ 'a' if 0 }}|{{ 0 or 'x' }}{{ 1 and 'y' }}{{ not '' }}|{{ (1, 2) | length }}{{ [] or 'e' }}",
    "{{ 'x' is string }}{{ {} is mapping }}{{ [] is iterable }}{{ 1 is number }}{{ 'x' is sequence }}{{ true is boolean }}{{ 1 is not string }}",
    "{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'abc'.upper() }}|{{ ([1] + [2]) | length }}",
    "{{ [[1, 2], [3]] | first | last }}|{{ 1 ~ 2 * 3 }}|{{ -1 | int }}|{{ 3 - -2 }}",
]


def main():
    families = [path.stem for path in sorted(here.glob("*.jinja"))]
    cases = [case(family, name, with_tools, prompts) for family in families for name in conversations
             for with_tools in (False, True) for prompts in (False, True)]
    printed = [{"source": source, "text": compile_template(source).render()} for source in snippets]
    utils._compile_jinja_template = compiled
    by_tokens = [token_case(*each) for each in tokenizers]
    more = ",\n".join(json.dumps(each, ensure_ascii=False) for each in by_tokens)
    (here / "token_goldens.json").write_text('{"composed": %s, "families": [\n%s\n]}\n' % (json.dumps(composed["composed"]), more))
    goldens = {"tokens": tokens, "tools": tools, "conversations": conversations, "cases": cases, "snippets": printed}
    (here / "goldens.json").write_text(json.dumps(goldens, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
