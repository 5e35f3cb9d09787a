#!/usr/bin/env bash
# Twelve languages, one tokenizer, one small GPT, bits per byte of each language on held-out text, and multiple choice.
# Leaves the data in corpus/multilingual and the run in runs/multilingual. Arguments are passed on to `zrt train`: for a
# run of seconds, `tools/examples/multilingual.sh --set run.steps=20`.
set -euo pipefail
cd "$(dirname "$0")/../.."

tools/setup.sh --multilingual
cmake --preset release >/dev/null
cmake --build --preset release --target zrt
zrt=build/release/zrt

# Eleven translations of one book, and a Russian one of another: the book has none.
text_of() {
  case "$1" in
    ru) echo /usr/share/doc/debian/FAQ/debian-faq.ru.txt.gz ;;
    *) echo "/usr/share/debian-reference/debian-reference.$1.txt.gz" ;;
  esac
}
languages=(de en es fr id it ja pt pt-br ru zh-cn zh-tw)
corpus=corpus/multilingual
mkdir -p "$corpus"

texts=()
for language in "${languages[@]}"; do texts+=("$(text_of "$language")"); done
"$zrt" data tokenizer --force --out "$corpus/tokenizer.model" --vocab 8192 "${texts[@]}"
# The last twentieth of every translation is held out: the same chapters, so that no held-out text was seen in another
# language's untranslated parts.
for language in "${languages[@]}"; do
  "$zrt" data build --force --out "$corpus/$language" --tokenizer "$corpus/tokenizer.model" --language "$language" \
    --validation 0.05 "$(text_of "$language")"
done

rm -rf runs/multilingual
"$zrt" train tools/examples/multilingual.json --ranks 2 --out runs/multilingual "$@"

echo
echo "== samples =="
for prompt in "The Debian " "Das Paket " "El sistema " "パッケージ" "软件包"; do
  "$zrt" generate runs/multilingual --prompt "$prompt" --tokens 40
done

echo
echo "== tasks in twelve languages, two shots each =="
python3 tools/examples/multilingual_tasks.py "$corpus"
"$zrt" eval runs/multilingual --tasks "$corpus/tasks.jsonl" --shots "$corpus/shots.jsonl" --number 2
