// The files of clusters: every figure is {"value": …, "source": "…"}, a curve has "points" instead of "value".
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/keys/text.h"
#include "runtime/config/json_reader.h"
#include "runtime/cost/cluster.h"

namespace zrt::runtime {
namespace {

using core::keys::in_quotes;
using nlohmann::json;

enum class Range : uint8_t { positive, not_negative, share };

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

// One object of the file. All its keys are listed by the first call of `keys`.
class Section {
 public:
  Section(const configuration::Document& document, const json& value, std::string path)
      : document_(document), value_(value), path_(std::move(path)) {
    if (!value.is_object()) fail(path_, fmt::format("{} is {}; legal is an object", title(), shown(value)));
  }

  bool has(const char* key) const { return value_.contains(key); }

  // Every key must be one of these.
  void keys(const std::vector<std::string>& known) const {
    for (const auto& [key, unused] : value_.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const std::string meant = core::keys::nearest(key, known);
      fail(join(key), fmt::format("{} has no key {}{}; legal are {}", title(), in_quotes(key),
                                  meant.empty() ? "" : ", did you mean '" + meant + "'?", core::keys::join(known)));
    }
  }

  const json& at(const char* key) const {
    if (!has(key)) fail(path_, fmt::format("{} lacks the key '{}'", title(), key));
    return value_.at(key);
  }

  Section section(const char* key) const { return {document_, at(key), join(key)}; }

  double number(const char* key, Range range) const {
    const Section figure = figure_of(key, "value");
    return figure.in_range(figure.at("value"), range);
  }

  std::optional<double> optional_rate(const char* key) const {
    return has(key) ? std::optional(number(key, Range::positive)) : std::nullopt;
  }

  int64_t whole(const char* key, int64_t low, int64_t high) const {
    const Section figure = figure_of(key, "value");
    const json& value = figure.at("value");
    if (!value.is_number_integer() || value < low || value > high) {
      fail(figure.path_,
           fmt::format("{} is {}; legal: a whole number from {} to {}", figure.path_, shown(value), low, high));
    }
    return value.get<int64_t>();
  }

  std::string word(const char* key, const std::vector<std::string>& known) const {
    const Section figure = figure_of(key, "value");
    const json& value = figure.at("value");
    if (!value.is_string() || std::find(known.begin(), known.end(), value) == known.end()) {
      fail(figure.path_, fmt::format("{} is {}; legal: {}", figure.path_, shown(value), core::keys::join(known)));
    }
    return value.get<std::string>();
  }

  Curve curve(const char* key, Range range) const {
    const Section figure = figure_of(key, "points");
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
        fail(figure.path_, fmt::format("{}.points has the size {} after {}; legal are sizes that rise", figure.path_,
                                       at, curve.points.back().at));
      }
      curve.points.push_back({at, value});
    }
    return curve;
  }

  Link link(const char* key, std::vector<std::string> more = {}) const {
    const Section link = section(key);
    more.insert(more.end(), {"latency_seconds", "bytes_per_second"});
    link.keys(more);
    return {link.number("latency_seconds", Range::not_negative), link.number("bytes_per_second", Range::positive)};
  }

 private:
  Section figure_of(const char* key, const char* content) const {
    const Section figure = section(key);
    figure.keys({content, "source"});
    const json& source = figure.at("source");
    if (!source.is_string() || source.get<std::string>().empty()) {
      fail(figure.path_, fmt::format("{}.source is {}; legal: a text that says where the figure is from", figure.path_,
                                     shown(source)));
    }
    return figure;
  }

  double in_range(const json& value, Range range) const {
    const double x = value.is_number() ? value.get<double>() : std::nan("");
    if (!std::isfinite(x) || x < 0 || (range != Range::not_negative && x == 0) || (range == Range::share && x > 1)) {
      fail(path_, fmt::format("{} is {}; legal: {}", path_, shown(value), legal(range)));
    }
    return x;
  }

  [[noreturn]] void fail(const std::string& path, const std::string& what) const {
    const auto line = document_.lines.find(path);
    throw core::ConfigError(line == document_.lines.end()
                                ? fmt::format("{}: {}.", document_.name, what)
                                : fmt::format("{}:{}: {}.", document_.name, line->second, what));
  }
  std::string title() const { return path_.empty() ? "the file" : path_; }
  std::string join(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }
  static std::string shown(const json& value) { return in_quotes(value.dump(-1, ' ', true)); }

  const configuration::Document& document_;
  const json& value_;
  std::string path_;
};

ComputeRates read_rates(const Section& section) {
  section.keys({"peak_flops_per_second", "gemm_efficiency", "attention_forward_efficiency",
                "attention_backward_efficiency", "pass_bytes_per_second", "sum_bytes_per_second"});
  ComputeRates rates;
  rates.peak_flops_per_second = section.number("peak_flops_per_second", Range::positive);
  rates.gemm = section.curve("gemm_efficiency", Range::share);
  rates.attention_forward = section.curve("attention_forward_efficiency", Range::share);
  rates.attention_backward = section.curve("attention_backward_efficiency", Range::share);
  rates.pass_bytes_per_second = section.number("pass_bytes_per_second", Range::positive);
  rates.sum_bytes_per_second = section.number("sum_bytes_per_second", Range::positive);
  return rates;
}

Overlap read_overlap(const Section& section, const char* other) {
  section.keys({"compute", other});
  return {section.number("compute", Range::share), section.number(other, Range::share)};
}

}  // namespace

Cluster load_cluster(const std::filesystem::path& file) {
  const configuration::Document document =
      configuration::parse_config_text(configuration::read_config_file(file), file.string());
  const Section root(document, document.root, "");
  root.keys({"ranks_per_host", "distribution", "compute", "memory", "op_seconds", "inside_host", "between_hosts",
             "overlap", "host_link", "disk"});
  Cluster cluster;
  cluster.name = file.stem().string();
  cluster.ranks_per_host = static_cast<int>(root.whole("ranks_per_host", 1, 1024));
  if (root.has("distribution") && root.word("distribution", {"block", "cyclic"}) == "cyclic") {
    cluster.distribution = Distribution::cyclic;
  }
  const Section compute = root.section("compute");
  std::vector<std::string> types;
  for (size_t i = 0; i < cluster.compute.size(); ++i) {
    types.emplace_back(core::dtype_name(static_cast<core::DType>(i)));
    if (compute.has(types[i].c_str())) cluster.compute[i] = read_rates(compute.section(types[i].c_str()));
  }
  compute.keys(types);
  const Section memory = root.section("memory");
  memory.keys(
      {"device_bytes", "reserved_bytes", "host_bytes", "nvme_bytes", "bytes_per_second", "host_bytes_per_second"});
  cluster.memory_bytes_per_second = memory.number("bytes_per_second", Range::positive);
  cluster.host_memory_bytes_per_second = memory.optional_rate("host_bytes_per_second");
  const char* const tiers[] = {"device_bytes", "host_bytes", "nvme_bytes"};
  for (size_t t = 0; t < core::tier_count; ++t) {
    cluster.tier_bytes[t] = static_cast<uint64_t>(memory.whole(tiers[t], t == 0 ? 1 : 0, int64_t{1} << 60));
  }
  if (memory.has("reserved_bytes")) {
    const auto most = static_cast<int64_t>(cluster.tier_bytes[static_cast<size_t>(core::Tier::device)]) - 1;
    cluster.reserved_bytes = static_cast<uint64_t>(memory.whole("reserved_bytes", 0, most));
  }
  cluster.op_seconds = root.number("op_seconds", Range::not_negative);
  cluster.inside_host = root.link("inside_host");
  const Section overlap = root.section("overlap");
  overlap.keys({"inside_host", "between_hosts", "host_lane"});
  cluster.overlap_inside = read_overlap(overlap.section("inside_host"), "comm");
  if (overlap.has("host_lane")) cluster.overlap_host = read_overlap(overlap.section("host_lane"), "host");
  if (root.has("between_hosts")) {
    cluster.between_hosts = root.link("between_hosts", {"exchange"});
    cluster.exchange =
        root.section("between_hosts").word("exchange", {"once_per_host", "once_per_rank"}) == "once_per_host"
            ? Exchange::once_per_host
            : Exchange::once_per_rank;
    cluster.overlap_between = read_overlap(overlap.section("between_hosts"), "comm");
  }
  cluster.host_link = root.link("host_link");
  cluster.disk = root.link("disk", {"read_bytes_per_second"});
  cluster.disk_read_bytes_per_second = root.section("disk").optional_rate("read_bytes_per_second");
  return cluster;
}

}  // namespace zrt::runtime
