#include "runtime/cost/file_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/keys/text.h"

namespace zrt::runtime {

using core::keys::in_quotes;
using nlohmann::json;

namespace {

const char* legal(Range range) {
  switch (range) {
    case Range::positive:
      return "a positive number";
    case Range::not_negative:
      return "a number from 0 on";
    case Range::share:
      return "a number above 0 and at most 1";
  }
  return "";
}

}  // namespace

FileSection::FileSection(const configuration::Document& document, const json& value, std::string path)
    : document_(document), value_(value), path_(std::move(path)) {
  if (!value.is_object()) fail(path_, fmt::format("{} is {}; legal is an object", title(), shown(value)));
}

std::vector<std::string> FileSection::names() const {
  std::vector<std::string> names;
  for (const auto& [key, unused] : value_.items()) names.push_back(key);
  return names;
}

void FileSection::keys(const std::vector<std::string>& known) const {
  for (const auto& [key, unused] : value_.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string meant = core::keys::nearest(key, known);
    fail(join(key), fmt::format("{} has no key {}{}; legal are {}", title(), in_quotes(key),
                                meant.empty() ? "" : ", did you mean '" + meant + "'?", core::keys::join(known)));
  }
}

const json& FileSection::at(const char* key) const {
  if (!has(key)) fail(path_, fmt::format("{} lacks the key '{}'", title(), key));
  return value_.at(key);
}

void FileSection::needs_no(const char* key, const char* other) const {
  if (has(key)) fail(join(key), fmt::format("{} has both '{}' and '{}'; one of them is enough", title(), key, other));
}

double FileSection::number(const char* key, Range range) const {
  const FileSection figure = figure_of(key, "value");
  return figure.in_range(figure.at("value"), range);
}

std::optional<double> FileSection::optional_rate(const char* key) const {
  return has(key) ? std::optional(number(key, Range::positive)) : std::nullopt;
}

int64_t FileSection::whole(const char* key, int64_t low, int64_t high) const {
  const FileSection figure = figure_of(key, "value");
  const json& value = figure.at("value");
  if (!value.is_number_integer() || value < low || value > high) {
    fail(figure.path_,
         fmt::format("{} is {}; legal: a whole number from {} to {}", figure.path_, shown(value), low, high));
  }
  return value.get<int64_t>();
}

std::string FileSection::word(const char* key, const std::vector<std::string>& known) const {
  const FileSection figure = figure_of(key, "value");
  const json& value = figure.at("value");
  if (!value.is_string() || std::find(known.begin(), known.end(), value) == known.end()) {
    fail(figure.path_, fmt::format("{} is {}; legal: {}", figure.path_, shown(value), core::keys::join(known)));
  }
  return value.get<std::string>();
}

Curve FileSection::curve(const char* key, Range range) const {
  const FileSection figure = figure_of(key, "points");
  const json& points = figure.at("points");
  if (!points.is_array() || points.empty()) {
    fail(figure.path_,
         fmt::format("{}.points is {}; legal: a list of pairs [size, value]", figure.path_, shown(points)));
  }
  Curve curve;
  for (const json& point : points) {
    if (!point.is_array() || point.size() != 2) {
      fail(figure.path_, fmt::format("{}.points holds {}; legal: pairs [size, value]", figure.path_, shown(point)));
    }
    const double at = figure.in_range(point[0], Range::positive), value = figure.in_range(point[1], range);
    if (!curve.points.empty() && at <= curve.points.back().at) {
      fail(figure.path_, fmt::format("{}.points has the size {} after {}; legal are sizes that rise", figure.path_, at,
                                     curve.points.back().at));
    }
    curve.points.push_back({at, value});
  }
  return curve;
}

Link FileSection::link(const char* key, std::vector<std::string> more) const {
  const FileSection link = section(key);
  more.insert(more.end(), {"latency_seconds", "bytes_per_second"});
  link.keys(more);
  return {link.number("latency_seconds", Range::not_negative), link.number("bytes_per_second", Range::positive)};
}

Link FileSection::link_of_ranks(const char* key) const {
  Link link = this->link(key, {"base_seconds", "bytes_per_second_by_ranks"});
  const FileSection more = section(key);
  if (more.has("base_seconds")) link.base_seconds = more.number("base_seconds", Range::not_negative);
  if (more.has("bytes_per_second_by_ranks")) {
    link.by_ranks = more.curve("bytes_per_second_by_ranks", Range::positive);
  }
  return link;
}

FileSection FileSection::figure_of(const char* key, const char* content) const {
  const FileSection figure = section(key);
  figure.keys({content, "source"});
  const json& source = figure.at("source");
  if (!source.is_string() || source.get<std::string>().empty()) {
    fail(figure.path_,
         fmt::format("{}.source is {}; legal: a text that says where the figure is from", figure.path_, shown(source)));
  }
  return figure;
}

double FileSection::in_range(const json& value, Range range) const {
  const double x = value.is_number() ? value.get<double>() : std::nan("");
  if (!std::isfinite(x) || x < 0 || (range != Range::not_negative && x == 0) || (range == Range::share && x > 1)) {
    fail(path_, fmt::format("{} is {}; legal: {}", path_, shown(value), legal(range)));
  }
  return x;
}

void FileSection::fail(const std::string& path, const std::string& what) const {
  const auto line = document_.lines.find(path);
  throw core::ConfigError(line == document_.lines.end()
                              ? fmt::format("{}: {}.", document_.name, what)
                              : fmt::format("{}:{}: {}.", document_.name, line->second, what));
}

}  // namespace zrt::runtime
