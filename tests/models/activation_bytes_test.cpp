// Compares what a layer keeps with what Megatron-LM does: the table of docs/memory.md.
#include <cmath>
#include <fstream>
#include <sstream>

#include "catch.h"
#include "models/model.h"
#include "tests/csv.h"

namespace zrt::activation_bytes_test {

using namespace zrt;
using Variables = std::map<char, double>;

namespace {

// "5 a s / (h t)" of numbers and letters.
double value_of(const std::string& term, const Variables& variables) {
  double value = 1;
  bool below = false;
  std::istringstream words(term);
  for (std::string word; words >> word;) {
    if (word == "/") {
      below = true;
      continue;
    }
    std::erase_if(word, [](char c) { return c == '(' || c == ')'; });
    const double factor = std::isalpha(word[0]) != 0 ? variables.at(word[0]) : std::stod(word);
    value = below ? value / factor : value * factor;
  }
  return value;
}

struct Row {
  std::string what, megatron, zrt;
};

std::vector<Row> rows_of_page() {
  std::ifstream page(ZRT_SOURCE_DIR "/docs/memory.md");
  std::vector<Row> rows;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| what is kept |")) inside = true;
    if (!inside || line.starts_with("| what") || line.starts_with("|---")) continue;
    if (!line.starts_with("| ")) break;
    std::vector<std::string> cells;
    std::istringstream fields(line.substr(2));
    for (std::string cell; std::getline(fields, cell, '|');) {
      const size_t begin = cell.find_first_not_of(' '), end = cell.find_last_not_of(' ');
      cells.push_back(begin == std::string::npos ? "" : cell.substr(begin, end - begin + 1));
    }
    rows.push_back({cells.at(0), cells.at(1), cells.at(2)});
  }
  return rows;
}

// Returns the sum of a column, per token and element; `sequence`: rows are shared, too.
double sum(const std::vector<Row>& rows, std::string Row::*column, const Variables& at, bool sequence,
           const std::string& without = "") {
  double total = 0;
  for (const Row& row : rows) {
    const std::string& term = row.*column;
    if (!without.empty() && row.what.starts_with(without)) continue;
    const bool divided = term.find('t') != std::string::npos;
    total += value_of(term, at) / (sequence && !divided ? at.at('t') : 1);
  }
  return total;
}

}  // namespace

TEST_CASE("the table's column of Megatron-LM makes the sums of its paper") {
  const std::vector<Row> rows = rows_of_page();
  REQUIRE(rows.size() == 13);
  size_t checked = 0;
  for (const auto& model : test::read_csv("activation_memory.csv")) {
    const auto number = [&](const char* name) { return std::stod(model.at(name)); };
    const Variables at{{'h', number("hidden")}, {'a', number("heads")}, {'s', number("seq")}, {'t', number("tp")}};
    const std::string& setting = model.at("setting");
    if (setting.starts_with("full")) continue;
    const bool sequence = setting.find("sp") != std::string::npos;
    const double each = sum(rows, &Row::megatron, at, sequence, setting.ends_with("selective") ? "scores" : "");
    INFO(model.at("model") << ", " << setting);
    const double tokens = number("seq") * number("microbatch");
    CHECK(each * tokens * number("hidden") == Approx(number("bytes_per_layer_per_rank")).epsilon(1e-12));
    ++checked;
  }
  CHECK(checked == 20);
}

TEST_CASE("the table's column of zrt is what a layer keeps, to the byte, and its equal rows are Megatron-LM's") {
  const std::vector<Row> rows = rows_of_page();
  for (const Row& row : rows) {
    INFO(row.what);
    CHECK((row.megatron == row.zrt || row.zrt == "0" || row.megatron == "0"));
  }
  const int64_t layers = 1, hidden = 256, heads = 16, B = 2, T = 64;
  for (const int tensor : {1, 2, 4, 8}) {
    for (const bool sequence : {false, true}) {
      const models::Model model = models::make_gpt2({.layers = layers,
                                                     .hidden = hidden,
                                                     .heads = heads,
                                                     .sequence = T,
                                                     .vocab = 64,
                                                     .dropout = 0.1f,
                                                     .degrees = {tensor, sequence}});
      const models::Shape shape{.B = B, .T = T, .type = core::DType::bf16};
      const models::Block& layer = *model.blocks[1];
      const Variables at{{'h', hidden}, {'a', heads}, {'s', T}, {'t', tensor}};
      const bool shared = sequence && tensor > 1;
      const auto input = static_cast<double>(2 * B * T * hidden / (shared ? tensor : 1));
      const auto kept = [&](models::Parts without) {
        return input + static_cast<double>(models::lay_out_saved(layer, shape, layer.anatomy().all(), without));
      };
      CAPTURE(tensor, sequence);
      const auto elements = static_cast<double>(B * T * hidden);
      CHECK(kept({}) == elements * sum(rows, &Row::zrt, at, shared));
      // Selective recomputation leaves out all but the first of the light parts.
      const models::Parts light = layer.anatomy().light;
      CHECK(kept({static_cast<uint8_t>(light.first + 1), light.end}) ==
            elements * sum(rows, &Row::zrt, at, shared, "input of GELU"));
    }
  }
}

}  // namespace zrt::activation_bytes_test
