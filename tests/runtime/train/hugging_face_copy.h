// A copy of one of transformers' folders, for tests that change it.
#pragma once
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "runtime/config/config.h"
#include "runtime/train/checkpoint/hugging_face.h"
#include "runtime/train/resume.h"
#include "temporary_folder.h"
#include "tests/data_folder.h"

namespace zrt::hugging_face_copy {

namespace fs = std::filesystem;
using namespace zrt::runtime::checkpoint;

struct Copy {
  explicit Copy(const std::string& name) : path(folder.path / name) {
    fs::copy(fs::path(zrt::test::data_folder()) / "hugging_face" / name, path);
  }
  // The error of opening it and asking for every weight of its model; "" for none.
  std::string error() const {
    try {
      const Reader reader = open_hugging_face(path);
      const models::Model model = runtime::hugging_face_config(reader, {}).model.make();
      const models::Model* const whole = &model;
      runtime::require_weights(reader, model);
      runtime::refuse_left_over(reader, {&whole, 1});
    } catch (const core::Error& error) {
      return error.what();
    }
    return "";
  }
  // Its warnings, put together.
  std::string warnings() const {
    std::string said;
    open_hugging_face(path, [&](const std::string& text) { said += text + "\n"; });
    return said;
  }
  void change_json(const char* file, const std::function<void(Json&)>& change) const {
    Json json = Json::parse(core::read_text(path / file, 1 << 20));
    change(json);
    std::ofstream(path / file) << json.dump();
  }
  bool has(const char* key) const { return Json::parse(core::read_text(path / "config.json", 1 << 20)).contains(key); }
  void set(const char* key, const Json& value) const {
    change_json("config.json", [&](Json& json) { json[key] = value; });
  }
  // Changes the header of a safetensors file, and what lies behind it.
  void change_file(const char* file, const std::function<void(Json&, std::string&)>& change) const {
    const std::string text = core::read_text(path / file, 1 << 20);
    uint64_t length = 0;
    std::memcpy(&length, text.data(), sizeof length);
    Json json = Json::parse(text.substr(8, length));
    std::string data = text.substr(8 + length);
    change(json, data);
    const std::string header = json.dump();
    const uint64_t changed = header.size();
    std::ofstream(path / file, std::ios::binary)
        << std::string(reinterpret_cast<const char*>(&changed), sizeof changed) << header << data;
  }
  void change_header(const char* file, const std::function<void(Json&)>& change) const {
    change_file(file, [&](Json& json, std::string&) { change(json); });
  }
  // A second tensor with the bytes of the first, added to the data of the file.
  void add_copy(const std::string& from, const std::string& to, const char* file = "model.safetensors") const {
    change_file(file, [&](Json& json, std::string& data) {
      Json copy = json.at(from);
      const auto place = copy.at("data_offsets").get<std::vector<size_t>>();
      copy["data_offsets"] = {data.size(), data.size() + place[1] - place[0]};
      json[to] = copy;
      data += data.substr(place[0], place[1] - place[0]);
    });
  }

  // Gives a tensor the bytes of another.
  void overwrite(const std::string& tensor, const std::string& from) const {
    change_file("model.safetensors", [&](Json& json, std::string& data) {
      const auto to = json.at(tensor).at("data_offsets").get<std::vector<size_t>>();
      data.replace(to[0], to[1] - to[0], data.substr(json.at(from).at("data_offsets").at(0), to[1] - to[0]));
    });
  }
  // Takes a tensor out of the header and its bytes out of the data.
  void remove(const std::string& tensor) const {
    change_file("model.safetensors", [&](Json& json, std::string& data) {
      const auto gone = json.at(tensor).at("data_offsets").get<std::vector<size_t>>();
      const size_t bytes = gone[1] - gone[0];
      json.erase(tensor);
      data.erase(gone[0], bytes);
      for (auto& [name, entry] : json.items()) {
        if (!entry.contains("data_offsets") || entry["data_offsets"][0].get<size_t>() < gone[1]) continue;
        for (Json& offset : entry["data_offsets"]) offset = offset.get<size_t>() - bytes;
      }
    });
  }
  // True when both open without an error and hold the same tensors.
  bool same_weights(const Copy& other) const {
    if (error() + other.error() != "") return false;
    const Reader mine = open_hugging_face(path), theirs = open_hugging_face(other.path);
    if (mine.weights().names() != theirs.weights().names()) return false;
    for (const std::string& name : mine.weights().names()) {
      int64_t count = 1;
      for (const int64_t extent : mine.weights().shape(name)) count *= extent;
      std::vector<float> a(static_cast<size_t>(count)), b(a.size());
      mine.read(name, 0, a);
      theirs.read(name, 0, b);
      if (a != b) return false;
    }
    return true;
  }

  testing::TemporaryFolder folder;
  fs::path path;
};

}  // namespace zrt::hugging_face_copy
