// Text as a .zst file has it: one frame.
#pragma once
#include <zstd.h>

#include <stdexcept>
#include <string>

namespace zrt::test {

inline std::string zstd(const std::string& text, int window_log = 0) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  if (window_log > 0) {
    ZSTD_CCtx_setParameter(context, ZSTD_c_enableLongDistanceMatching, 1);
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  }
  std::string out(ZSTD_compressBound(text.size()) + 64, '\0');
  ZSTD_inBuffer from{text.data(), text.size(), 0};
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  // The text is given in two calls: a window is cut to the text where all of it is known at once.
  ZSTD_inBuffer first{text.data(), text.size() / 2, 0};
  size_t left = window_log > 0 ? ZSTD_compressStream2(context, &to, &first, ZSTD_e_flush) : 0;
  from.pos = first.pos;
  if (ZSTD_isError(left) == 0) left = ZSTD_compressStream2(context, &to, &from, ZSTD_e_end);
  ZSTD_freeCCtx(context);
  if (left != 0) throw std::runtime_error("zstd does not compress");
  out.resize(to.pos);
  return out;
}

}  // namespace zrt::test
