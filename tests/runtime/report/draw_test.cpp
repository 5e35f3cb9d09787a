#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "catch.h"
#include "runtime/report/draw/page.h"
#include "runtime/report/draw/svg.h"

namespace zrt::draw_test {

using namespace zrt::runtime::draw;

namespace {

// Every element that is opened is closed, in order, and attributes are quoted: what an XML reader asks of SVG. Pages
// add a few HTML elements without an end.
std::string first_fault(const std::string& text) {
  std::vector<std::string> open;
  size_t at = 0;
  while ((at = text.find('<', at)) != std::string::npos) {
    size_t end = at + 1;
    bool quoted = false;
    while (end < text.size() && (quoted || text[end] != '>')) {
      if (text[end] == '"') quoted = !quoted;
      if (quoted && text[end] == '<') return "'<' in an attribute: " + text.substr(at, end - at);
      ++end;
    }
    if (end == text.size()) return "not closed: " + text.substr(at, 60);
    const std::string tag = text.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" /\n", 1) - (tag[0] == '/' ? 1 : 0));
    at = end;
    if (tag[0] == '!' || tag.back() == '/' || name == "meta") continue;
    if (tag[0] != '/') {
      open.push_back(name);
      if (name == "script") at = text.find("</script>", at) - 1;
    } else {
      const std::string closed = tag.substr(1);
      if (open.empty() || open.back() != closed) return "unexpected end of " + closed;
      open.pop_back();
    }
  }
  return open.empty() ? "" : "no end of " + open.back();
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++n;
  return n;
}

bool contains(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

LaneChart lanes() {
  LaneChart chart;
  chart.title = "lanes & time";
  chart.x_end = 4;
  chart.lanes = {"compute", "comm:dp"};
  chart.kinds = {"forward", "gather"};
  chart.bars = {{0, 0, 1, 3, "forward <h.0>"}, {1, 1, 0, 1, "gather \"h.0\""}};
  return chart;
}

}  // namespace

TEST_CASE("Bars lie where their times say, and names cannot break the page") {
  const std::string svg = draw_lanes(lanes());
  INFO(svg);
  CHECK(first_fault(svg).empty());
  CHECK(contains(svg, "<rect x=\"250\" y=\"3\" width=\"500\""));  // of 1000 for four seconds
  CHECK(contains(svg, "<rect x=\"0\" y=\"29\" width=\"250\""));
  CHECK(contains(svg, "lanes &amp; time"));
  CHECK(contains(svg, "data-t=\"forward &lt;h.0&gt;\n2 s from 1 s\""));
  CHECK(contains(svg, "gather &quot;h.0&quot;"));
}

TEST_CASE("An axis is never shorter than its bars, nor empty") {
  LaneChart chart = lanes();
  chart.x_end = 0;
  CHECK(contains(draw_lanes(chart), "data-to=\"3\""));
  chart.bars.clear();
  CHECK(contains(draw_lanes(chart), "data-to=\"1\""));
  CHECK(first_fault(draw_lanes({})).empty());
}

TEST_CASE("The numbers below an axis go from its start to its end, wherever it begins") {
  const auto ticks = [](const std::string& svg) {
    std::vector<std::string> found;
    for (size_t at = 0; (at = svg.find("class=\"tick\"", at)) != std::string::npos; ++at) {
      const size_t begin = svg.find('>', at) + 1;
      found.push_back(svg.substr(begin, svg.find('<', begin) - begin));
    }
    return found;
  };
  using Numbers = std::vector<std::string>;
  for (const auto& [from, to, expected] :
       std::vector<std::tuple<double, double, Numbers>>{{0, 1000, {"0", "200", "400", "600", "800", "1000"}},
                                                        {500, 1000, {"500", "600", "700", "800", "900", "1000"}},
                                                        {-1, 4, {"-1", "0", "1", "2", "3", "4"}}}) {
    CAPTURE(from, to);
    ValueChart values;
    values.x = {from, to}, values.x_start = from, values.x_end = to;
    values.series = {{"loss", {2, 1}}};
    CHECK(ticks(draw_values(values)) == expected);
    LaneChart bars = lanes();
    bars.x_unit = Unit::plain, bars.x_start = from, bars.x_end = to;
    CHECK(ticks(draw_lanes(bars)) == expected);
  }
}

TEST_CASE("Areas are stacked on each other and hold their value until the next") {
  ValueChart chart;
  chart.title = "memory";
  chart.x = {0, 1, 2}, chart.x_end = 4;
  chart.series = {{"weights", {10, 10, 10}}, {"activations", {0, 9, 0}}};
  chart.stacked = chart.steps = true;
  chart.limit = 20, chart.limit_name = "budget";
  const std::string svg = draw_values(chart);
  INFO(svg);
  CHECK(first_fault(svg).empty());
  // The axis reaches 21, five percent above the budget: 10 is at 115.238 of 220 pixels, 19 at 20.952.
  CHECK(contains(svg, "M0,115.238H250L250,115.238H500L500,115.238L500,220V220L250,220V220L0,220Z"));
  CHECK(contains(svg, "M0,115.238H250L250,20.952H500L500,115.238L500,115.238V115.238L250,115.238V115.238L0,115.238Z"));
  CHECK(contains(svg, "class=\"limit\""));
  CHECK(contains(svg, "budget 20"));
}

TEST_CASE("A line has a gap where a value is missing") {
  ValueChart chart;
  chart.x = {0, 1, 2, 3}, chart.x_end = 3;
  chart.series = {{"loss", {4, NAN, 2, 3}}};
  const std::string svg = draw_values(chart);
  CHECK(first_fault(svg).empty());
  CHECK(count(svg, "M666.667,") == 1);
  CHECK(contains(svg, "&quot;y&quot;:[4.0,null,2.0,3.0]"));
  // The first value, alone between the edge and the gap, is a dot.
  CHECK(contains(svg, "<path class=\"line dots\" d=\"M0,"));
  CHECK(count(svg, "h0") == 1);
  chart.series[0].y = {NAN, NAN, NAN, NAN};
  CHECK(first_fault(draw_values(chart)).empty());
  CHECK(first_fault(draw_values({})).empty());
}

TEST_CASE("A page holds everything itself") {
  const std::string html =
      page("a <run>", {table({"rank", "bytes"}, {{"0", "12"}, {"mean", "<b>"}}), draw_lanes(lanes())});
  CHECK(first_fault(html).empty());
  CHECK(contains(html, "<title>a &lt;run&gt;</title>"));
  CHECK(contains(html, "<td class=\"n\">12</td>"));
  CHECK(contains(html, "<td>mean</td><td>&lt;b&gt;</td>"));
  for (const char* outside : {"http:", "https:", "src=", "href=", "@import", "url("})
    CHECK_FALSE(contains(html, outside));
}

TEST_CASE("Numbers carry the unit of their axis") {
  CHECK(number_text(0, Unit::seconds) == "0 s");
  CHECK(number_text(0.0125, Unit::seconds) == "12.5 ms");
  CHECK(number_text(2e-6, Unit::seconds) == "2 µs");
  CHECK(number_text(1.5 * (1 << 30), Unit::bytes) == "1.50 GiB");
  CHECK(number_text(0.25, Unit::plain) == "0.25");
  CHECK(number_text(123456, Unit::plain) == "123456");
}

}  // namespace zrt::draw_test
