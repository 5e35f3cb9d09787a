// Reads what must be known of a SentencePiece .model before its library may see it. The file is a protobuf message
// (sentencepiece_model.proto) and may come from anywhere.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace zrt::runtime::data {

struct ModelFields {
  bool byte_fallback = false;    // it has a piece for each byte
  bool add_dummy_prefix = true;  // texts start with a space; the message's default
  // The message without its self-test and its denormaliser, and with the identity rule as its normaliser: no character
  // map (a hostile one makes the library read out of bounds), no prefix, every space kept. Encoding with it changes no
  // byte of a text.
  std::string identity;
};

// Throws DataError naming `source` when the bytes are not such a message, or a part of one.
ModelFields read_model_fields(std::string_view model, const std::string& source);
// Returns the texts of its pieces by their ids. Throws the same.
std::vector<std::string> read_model_pieces(std::string_view model, const std::string& source);

}  // namespace zrt::runtime::data
