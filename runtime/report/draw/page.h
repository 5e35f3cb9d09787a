// One HTML page around charts: style, script and everything else inside, so that the file can be sent and kept.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace zrt::runtime::draw {

// Tells a page of zrt's from other files; stands near its begin.
inline constexpr const char* page_mark = "<meta name=\"generator\" content=\"zrt\">";

// `parts` are HTML: what draw_lanes and draw_values return, tables, paragraphs. The script shows what lies under the
// pointer and zooms into the common time axis of all charts with the wheel (a double click shows all of it again).
std::string page(std::string_view title, const std::vector<std::string>& parts);

// A table. Cells are text and become right-aligned where they start with a digit. Without a head it is a list of names
// and values, which stay on the left.
std::string table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows);

}  // namespace zrt::runtime::draw
