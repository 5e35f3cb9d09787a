// Finds the files that the inputs of a build name.
#pragma once
#include <string>
#include <vector>

namespace zrt::runtime::data {

struct SkippedInput {
  std::string path, reason;
};

struct InputFile {
  std::string path;
  bool named = false;  // by the user, not found in a folder
};

struct InputFiles {
  std::vector<InputFile> files;  // in the order of the inputs; those of a folder sorted by path
  std::vector<SkippedInput> skipped;
};

// Folders are searched recursively for .txt, .md, .text, .jsonl and .ndjson files and .gz and .zst of them; files that
// are named are taken whatever their ending. A file that occurs twice is read once. Links to folders are not followed.
// Throws DataError when an input does not exist, a folder cannot be read, or nothing is left.
InputFiles find_input_files(const std::vector<std::string>& inputs);

}  // namespace zrt::runtime::data
