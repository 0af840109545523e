//go:build cgo && !windows

package dlpack_test

import (
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/dlpack"
)

func TestNilArguments(t *testing.T) {
	sound := iota32(t, 2, 3)
	coretest.CheckNils(t, map[string]any{
		"Elements": dlpack.Elements[float32], "Flush": dlpack.Flush, "Table": dlpack.Table,
		"NewProducer": dlpack.NewProducer, "Export": "what it returns is for a consumer to delete", "ExportCopied": "what it returns is for a consumer to delete",
		"ExportLegacy": "what it returns is for a consumer to delete", "Delete": dlpack.Delete, "DeleteLegacy": dlpack.DeleteLegacy,
		"Import": dlpack.Import, "ImportLegacy": dlpack.ImportLegacy, "Producer": dlpack.Producer{}, "Description": new(dlpack.Description),
	}, sound)
}
