// Cuts a text into the pieces that no token crosses: one subclass for each type of pre-tokenizer.
#pragma once
#include <memory>
#include <string_view>

#include "runtime/data/tokenizer_json/fields.h"

namespace zrt::runtime::data::tokenizer_json {

struct Piece {
  std::string_view text;
  bool first;  // it begins where the document does
};

// Takes pieces one after the other; a reference to a function object.
class PieceSink {
 public:
  template <class Take>
  PieceSink(const Take& take)  // NOLINT(google-explicit-constructor): any lambda is one
      : object_(&take), call_([](const void* object, Piece piece) { (*static_cast<const Take*>(object))(piece); }) {}
  void operator()(Piece piece) const {
    if (!piece.text.empty()) call_(object_, piece);
  }

 private:
  const void* object_;
  void (*call_)(const void*, Piece);
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Hands on the pieces of `piece` from left to right; what it rewrites lives as long as the call.
  virtual void cut(Piece piece, PieceSink next) const = 0;
};

// `raw_bytes`: a ByteLevel that comes last leaves bytes as they are, for a model that takes them so. Comes back false
// where there is none. Throws DataError naming the type where there is no such pre-tokenizer.
std::unique_ptr<PreTokenizer> read_pre_tokenizer(Fields fields, bool& raw_bytes);

// Those that cut by classes of characters (character_cuts.cpp), or nullptr.
std::unique_ptr<PreTokenizer> read_character_cut(const std::string& type, Fields& fields);

}  // namespace zrt::runtime::data::tokenizer_json
