#pragma once

#include "attend/export/pt2_program.h"
#include "io/zip_archive.h"

namespace attend {

/// `load_pt2` of an archive that is open already. Its messages name no file.
Pt2Program read_pt2(const ZipArchive& zip, const Pt2LoadOptions& options);

}  // namespace attend
