#include "runtime/data/tokenizer_json/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <stdexcept>

#include "core/error.h"
#include "core/printable.h"
#include "runtime/data/tokenizer_json/unicode.h"

namespace zrt::runtime::data::tokenizer_json {

namespace {

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// PCRE2's memory of one thread.
struct Workplace {
  pcre2_match_data* result = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(size_t{1} << 15, size_t{1} << 26, nullptr);
  Workplace() { pcre2_jit_stack_assign(context, nullptr, stack); }
  ~Workplace() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(result);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
};

}  // namespace

struct Regex::Impl {
  pcre2_code* code = nullptr;
  std::string source, place;
  bool jit = false;
  ~Impl() { pcre2_code_free(code); }
};

Regex::Regex(const std::string& pattern, const std::string& source, const std::string& place)
    : impl_(std::make_unique<Impl>()) {
  impl_->source = source;
  impl_->place = place;
  const auto refuse = [&](const std::string& why) {
    throw core::DataError(core::printable(
        fmt::format("{}: {} is the regular expression '{}'; zrt cannot run it: {}.", source, place, pattern, why)));
  };
  std::string translated;
  try {
    translated = pcre_pattern(pattern);
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
  }
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE at = 0;
  impl_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &at, context);
  pcre2_compile_context_free(context);
  if (impl_->code == nullptr) refuse(fmt::format("{}, at byte {} of '{}'", message_of(error), at, translated));
  impl_->jit = pcre2_jit_compile(impl_->code, PCRE2_JIT_COMPLETE) == 0;
}

Regex::~Regex() = default;

bool Regex::find(std::string_view text, size_t from, size_t& begin, size_t& end) const {
  static thread_local Workplace here;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const int found =
      impl_->jit
          ? pcre2_jit_match(impl_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, here.result, here.context)
          : pcre2_match(impl_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, here.result, here.context);
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0)
    throw core::DataError(
        fmt::format("{}: the regular expression {} gives up in a text of {} bytes: {}. It backtracks too much; cut the "
                    "text into shorter documents.",
                    impl_->source, impl_->place, text.size(), message_of(found)));
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(here.result);
  begin = offsets[0];
  end = offsets[1];
  // \K in a look-ahead can set the begin behind the end.
  if (begin < from || end < begin)
    throw core::DataError(fmt::format("{}: the regular expression {} matches backwards.", impl_->source, impl_->place));
  return true;
}

bool Regex::Matches::next() {
  while (from_ <= text_.size()) {
    const size_t last = end;
    if (!regex_.find(text_, from_, begin, end)) return false;
    // No empty match may follow the last one immediately.
    if (begin == end && matched_ && begin == last) {
      end = last;
      from_ += from_ < text_.size() ? character_at(text_, from_).bytes : 1;
      continue;
    }
    from_ = end;
    matched_ = true;
    return true;
  }
  return false;
}

}  // namespace zrt::runtime::data::tokenizer_json
