#pragma once

#include "attend/api.h"
#include "attend/pt2/pt2_program.h"
#include "io/zip_archive.h"

namespace attend {

/// Like `load_pt2`, but loads the program from an open archive. Error messages do not contain a
/// file name.
ATTEND_API Pt2Program read_pt2(const ZipArchive& zip, const Pt2LoadOptions& options);

}  // namespace attend
