// The values of data.documents: what samples hold of documents.
#pragma once
#include <cstdint>
#include <string_view>

namespace zrt::runtime::data {

enum class DocumentUse : uint8_t {
  joined,    // they lie end to end and are cut into samples (gpt_dataset.h)
  alone,     // each is a sample (document_dataset.h)
  separate,  // several share a sample and attend to themselves alone (packed_dataset.h)
};

constexpr const char* name_of(DocumentUse use) {
  return use == DocumentUse::joined ? "joined" : use == DocumentUse::alone ? "alone" : "separate";
}

// Expects one of the three names, to which the configuration holds users.
constexpr DocumentUse document_use(std::string_view name) {
  return name == "joined" ? DocumentUse::joined : name == "alone" ? DocumentUse::alone : DocumentUse::separate;
}

}  // namespace zrt::runtime::data
