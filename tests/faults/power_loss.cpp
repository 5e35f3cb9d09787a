#include "tests/faults/power_loss.h"

#include <stdexcept>

namespace zrt::testing {
namespace {

constexpr int none = -1;

}  // namespace

std::vector<JournalEntry> read_journal(const fs::path& file) {
  const std::string text = read_file(file);
  std::vector<JournalEntry> entries;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    std::vector<std::string> fields;
    for (size_t field = at; field <= end;) {
      const size_t stop = std::min(text.find('\t', field), end);
      fields.push_back(text.substr(field, stop - field));
      field = stop + 1;
    }
    at = end + 1;
    fields.resize(4);
    JournalEntry& entry = entries.emplace_back(JournalEntry{fields[0], fields[1], fields[2], ""});
    if (entry.op != "write") continue;
    entry.data = text.substr(at, std::stoull(fields[3]));
    at += entry.data.size();
  }
  return entries;
}

Disk::Disk(fs::path root, Matters matters) : root_(std::move(root)), matters_(std::move(matters)) {
  load(root_);
}

int Disk::make(bool folder) {
  Node& node = nodes_.emplace_back();
  node.folder = folder;
  node.data = node.synced = std::make_shared<std::string>();
  return static_cast<int>(nodes_.size()) - 1;
}

int Disk::load(const fs::path& path) {
  const int id = make(fs::is_directory(path));
  if (!nodes_[id].folder) {
    nodes_[id].data = nodes_[id].synced = std::make_shared<std::string>(read_file(path));
    return id;
  }
  for (const auto& entry : fs::directory_iterator(path)) {
    const int child = load(entry.path());
    nodes_[id].entries[entry.path().filename()] = child;
  }
  nodes_[id].kept = nodes_[id].entries;
  return id;
}

int Disk::find(const fs::path& path) const {
  int at = 0;
  if (path == root_) return at;
  for (const fs::path& name : path.lexically_relative(root_)) {
    const auto found = nodes_[at].entries.find(name);
    if (found == nodes_[at].entries.end()) throw std::runtime_error("no journal tells of " + path.string());
    at = found->second;
  }
  return at;
}

void Disk::set(const fs::path& folder, const std::map<std::string, int>& change) {
  Node& node = nodes_[find(folder)];
  for (const auto& [name, child] : change) {
    if (child == none) {
      node.entries.erase(name);
    } else {
      node.entries[name] = child;
    }
  }
  node.changes.push_back(change);
}

void Disk::apply(const JournalEntry& entry) {
  const fs::path path = entry.path, folder = path.parent_path();
  const std::string name = path.filename();
  if (entry.op == "create" || entry.op == "mkdir") return set(folder, {{name, make(entry.op == "mkdir")}});
  if (entry.op == "unlink") return set(folder, {{name, none}});
  if (entry.op == "rename" || entry.op == "exchange") {
    const fs::path target = entry.more;
    if (target.parent_path() != folder) throw std::runtime_error("a rename into another folder: " + entry.text());
    const int source = find(path), other = entry.op == "rename" ? none : find(target);
    return set(folder, {{target.filename(), source}, {name, other}});
  }
  Node& node = nodes_[find(path)];
  if (entry.op == "fsync") {
    node.kept = node.entries, node.changes.clear();
    node.synced = node.data, node.synced_version = node.version;
  } else if (entry.op == "write" || entry.op == "truncate") {
    std::string data = *node.data;
    const size_t at = std::stoull(entry.more);
    data.resize(entry.op == "truncate" ? at : std::max(data.size(), at + entry.data.size()));
    if (entry.op == "write") data.replace(at, entry.data.size(), entry.data);
    node.data = std::make_shared<std::string>(std::move(data));
    ++node.version;
  } else {
    throw std::runtime_error("the journal holds an unknown call: " + entry.text());
  }
}

// Adds a node to the state; without choices: all that was done.
void Disk::add(State& state, int id, const fs::path& path, Choices* choices) const {
  const Node& node = nodes_[id];
  if (!node.folder) {
    size_t form = 1;
    if (choices && node.version != node.synced_version) form = choices->choose(4);
    auto data = form == 0 ? node.synced : node.data;
    if (form == 2) data = std::make_shared<std::string>(data->substr(0, data->size() / 2));
    if (form == 3) data = std::make_shared<std::string>(data->size(), '\0');
    state.files[path] = data;
    state.name += path.string() + "=" + std::to_string(id) + "." +
                  std::to_string(form == 0 ? node.synced_version : node.version) + "." +
                  std::to_string(std::max<size_t>(form, 1)) + " ";
    return;
  }
  if (!path.empty()) state.folders.push_back(path), state.name += path.string() + "/ ";
  std::map<std::string, int> entries = node.kept;
  for (const auto& change : node.changes) {
    bool seen = false;
    for (const auto& [name, child] : change) seen = seen || matters_(path / name);
    if (!seen || (choices && choices->choose(2) == 0)) continue;
    for (const auto& [name, child] : change) entries[name] = child;
  }
  for (const auto& [name, child] : entries) {
    if (child != none && matters_(path / name)) add(state, child, path / name, choices);
  }
}

Disk::State Disk::state(Choices& choices) const {
  State state;
  add(state, 0, "", &choices);
  return state;
}

Disk::State Disk::now() const {
  State state;
  add(state, 0, "", nullptr);
  return state;
}

void Disk::State::make(const fs::path& at) const {
  for (const std::string& folder : folders) fs::create_directories(at / folder);
  for (const auto& [path, data] : files) std::ofstream(at / path, std::ios::binary) << *data;
}

}  // namespace zrt::testing
