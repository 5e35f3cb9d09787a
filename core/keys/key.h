// Describes a key of the configuration, so that what a key is for can own it: a model its sizes, an optimizer its
// parameters. A key is implemented; or inert: it steers only DeepSpeed's own machinery, is accepted, and is named in a
// warning when set; or refused: it asks for something else than what would happen, and only harmless values are
// accepted.
#pragma once
#include <cstdint>
#include <limits>
#include <span>

namespace zrt::core::keys {

// The types that a value may have, as bits.
using Types = uint16_t;
inline constexpr Types t_bool = 1, t_int = 2, t_real = 4, t_text = 8, t_list = 16, t_object = 32, t_null = 64;
inline constexpr Types t_auto = 128;      // the string "auto" has a meaning of its own
inline constexpr Types t_any = 256;       // every value
inline constexpr Types t_never = 512;     // DeepSpeed rejects the key whatever its value
inline constexpr Types t_natural = 1024;  // the number must not be negative
inline constexpr Types t_old = 2048;      // an old name that is replaced while reading; it has no line of its own

inline constexpr Types t_any_case = 4096;  // one of `choices` in whatever case

enum class Handling : uint8_t { implemented, inert, refused };

inline constexpr double infinity = std::numeric_limits<double>::infinity();  // as a limit: none

// Says which values are legal, beside their type.
struct Legal {
  double low = -infinity, high = infinity;  // of a number, and of each number of a list
  bool below = false;                       // the number must be less than `high`
  const char* choices = "";                 // the only texts, separated by blanks; "": there are others

  constexpr bool holds(double number) const { return number >= low && (below ? number < high : number <= high); }
};
constexpr Legal at_least(double low) {
  return {.low = low};
}
constexpr Legal between(double low, double high) {
  return {low, high};
}
constexpr Legal half_open(double low, double high) {
  return {low, high, true};
}
constexpr Legal one_of(const char* choices) {
  return {.choices = choices};
}

// Says what an implemented key changes. Only `results` reach the weights that training ends with.
enum class Effect : uint8_t {
  unsaid,   // of sections
  results,  // weights, losses, rates
  cost,     // memory, transfers and time
  reports,  // what is printed and written
  nothing,  // it may only say what happens anyway
};

struct Key {
  const char* name;
  Types types;
  const char* fallback;  // the default as JSON; null: the key has none
  Handling handling = Handling::implemented;
  const char* note = "";           // why the key is inert or refused; of an implemented key: why where it has no effect
  const char* harmless = nullptr;  // JSON list of values accepted like the default
  const char* alias = nullptr;     // another spelling
  Legal legal = {};
  Effect effect = Effect::unsaid;
  const char* help = "";  // what the key is for, and what null means; inert and refused keys have a note instead
};

// An implemented one; without an effect, a section.
constexpr Key key(const char* name, Types types, const char* fallback, Legal legal, Effect effect, const char* help) {
  return {.name = name, .types = types, .fallback = fallback, .legal = legal, .effect = effect, .help = help};
}
constexpr Key key(const char* name, Types types, const char* fallback, Effect effect, const char* help) {
  return key(name, types, fallback, {}, effect, help);
}
constexpr Key key(const char* name, Types types, const char* fallback, const char* help) {
  return key(name, types, fallback, {}, Effect::unsaid, help);
}

// strict: coerces like DeepSpeed's validated models ("5_000" is an integer, "yes" a boolean); legacy: does not, though
// 5e8 is an integer too. own: the sections DeepSpeed ignores; like legacy. Everywhere "auto" counts as left out, save
// where it has a meaning (t_auto), and in own sections where a text may be called so.
enum class Parser : uint8_t { strict, legacy, own };

struct Section {
  const char* path;     // "zero_optimization.offload_param"; "" for the top level
  const char* variant;  // optimizer.params and scheduler.params: the types that read these keys; else ""
  Parser parser;
  // While this key has its default, the others do nothing in DeepSpeed either: no warning; nor where it is inert
  // itself, since its own warning says all. Or null.
  const char* gate;
  std::span<const Key> keys;
};

}  // namespace zrt::core::keys
