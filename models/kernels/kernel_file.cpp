#include "models/kernels/kernel_file.h"

#include <fmt/format.h>

#include <charconv>
#include <mutex>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace zrt::models {
namespace {

using Json = nlohmann::json;

constexpr const char* remedy = "Make the file again with zrt bench tune.";

struct InUse {
  std::mutex mutex;
  KernelFile file;
};
InUse& in_use() {
  static InUse instance;
  return instance;
}

std::string text_of(const Json& json, const char* key, const std::string& name) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) {
    throw core::ConfigError(fmt::format("{} has no text \"{}\". {}", name, key, remedy));
  }
  return found->get<std::string>();
}

AlgorithmWords words_of(const std::string& digits, const std::string& product, const std::string& name) {
  AlgorithmWords words{};
  bool legal = digits.size() == 16 * words.size();
  for (size_t i = 0; i < words.size() && legal; ++i) {
    const char *from = digits.data() + 16 * i, *to = from + 16;
    const auto [end, error] = std::from_chars(from, to, words[i], 16);
    legal = error == std::errc{} && end == to;
  }
  if (!legal) {
    throw core::ConfigError(fmt::format("{}: the algorithm of {} is '{}', but must be {} hexadecimal digits. {}", name,
                                        product, digits, 16 * words.size(), remedy));
  }
  return words;
}

}  // namespace

std::string algorithm_text(const AlgorithmWords& words) {
  std::string text;
  for (const uint64_t word : words) text += fmt::format("{:016x}", word);
  return text;
}

KernelFile parse_kernel_file(const std::string& text, const std::string& name) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw core::ConfigError(fmt::format("{} is not a JSON object. {}", name, remedy));
  KernelFile file;
  file.chip = text_of(json, "chip", name), file.library = text_of(json, "library", name);
  const auto products = json.find("products");
  if (products == json.end() || !products->is_object()) {
    throw core::ConfigError(fmt::format("{} has no object \"products\". {}", name, remedy));
  }
  for (const auto& [product, algorithm] : products->items()) {
    file.products[product] = words_of(algorithm.is_string() ? algorithm.get<std::string>() : "", product, name);
  }
  return file;
}

std::string kernel_file_text(const KernelFile& file) {
  Json products = Json::object();
  for (const auto& [product, words] : file.products) products[product] = algorithm_text(words);
  return Json{{"chip", file.chip}, {"library", file.library}, {"products", products}}.dump(1) + "\n";
}

void check_kernel_file(const KernelFile& file, const std::string& name, const std::string& chip,
                       const std::string& library) {
  if (file.chip == chip && file.library == library) return;
  throw core::ConfigError(fmt::format("{} was made for {} with {}, but here are {} and {}. {}", name, file.chip,
                                      file.library, chip, library, remedy));
}

void use_kernel_file(KernelFile file) {
  const std::lock_guard lock(in_use().mutex);
  in_use().file = std::move(file);
}

std::optional<AlgorithmWords> listed_algorithm(const GemmSpec& spec) {
  const std::lock_guard lock(in_use().mutex);
  const auto& products = in_use().file.products;
  const auto found = products.find(spec.text());
  return found == products.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace zrt::models
