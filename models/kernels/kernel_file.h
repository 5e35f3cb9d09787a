// Files that `zrt bench tune` writes: which of the library's algorithms runs which product of a GPU. An algorithm is
// the library's own description of it, which holds for one chip and one version of the library.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "models/kernels/gemm.h"

namespace zrt::models {

using AlgorithmWords = std::array<uint64_t, 8>;

struct KernelFile {
  std::string chip, library;                       // "NVIDIA H200", "cuBLASLt 13.0.2"
  std::map<std::string, AlgorithmWords> products;  // by GemmSpec::text()
};

// `name` is the file's, for messages. Throws ConfigError.
KernelFile parse_kernel_file(const std::string& text, const std::string& name);
inline constexpr const char* kernel_file_mark = "{\n \"chip\": \"";  // how such a text begins
std::string kernel_file_text(const KernelFile& file);
// Throws ConfigError unless the file was made for this chip and library.
void check_kernel_file(const KernelFile& file, const std::string& name, const std::string& chip,
                       const std::string& library);

// Products made from here on take their algorithms from the file, where it lists them; one file per process.
void use_kernel_file(KernelFile file);
std::optional<AlgorithmWords> listed_algorithm(const GemmSpec& spec);
std::string algorithm_text(const AlgorithmWords& words);  // 128 hexadecimal digits

}  // namespace zrt::models
