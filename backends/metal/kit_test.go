package metal_test

import (
	"bytes"
	"crypto/sha256"
	"debug/macho"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMacKit checks the programs of the kit that scripts/mac-kit.sh has built: a Mac can load them.
func TestMacKit(t *testing.T) {
	kit := os.Getenv("DLX_MAC_KIT")
	if kit == "" {
		t.Skip("DLX_MAC_KIT is not set: make test-metal builds a kit")
	}
	for arch, cpu := range map[string]macho.Cpu{"arm64": macho.CpuArm64, "amd64": macho.CpuAmd64} {
		for _, name := range []string{"dlx", "binding.test", "metal.test"} {
			t.Run(arch+"/"+name, func(t *testing.T) {
				program, err := os.ReadFile(filepath.Join(kit, "bin", arch, name))
				if err != nil {
					t.Fatal(err)
				}
				f, err := macho.NewFile(bytes.NewReader(program))
				if err != nil {
					t.Fatal(err)
				}
				if f.Cpu != cpu || f.Type != macho.TypeExec {
					t.Errorf("the program is a %v for %v", f.Type, f.Cpu)
				}
				libraries, err := f.ImportedLibraries()
				if err != nil || len(libraries) == 0 {
					t.Errorf("libraries %v: %v", libraries, err)
				}
				for _, library := range libraries {
					if !strings.HasPrefix(library, "/usr/lib/") && !strings.HasPrefix(library, "/System/Library/Frameworks/") {
						t.Errorf("the program needs %s", library)
					}
				}
				if cpu == macho.CpuArm64 { // Intel's Macs run programs without a signature
					checkSignature(t, f, program)
				}
			})
		}
	}
}

// checkSignature fails unless the program has a signature that needs no certificate, and is what was signed. The structs
// are those of Apple's <kern/cs_blobs.h>.
func checkSignature(t *testing.T, f *macho.File, program []byte) {
	const (
		codeSignature = 0x1d // LC_CODE_SIGNATURE
		superBlob     = 0xfade0cc0
		codeDirectory = 0xfade0c02
		adHoc         = 2 // CS_ADHOC
		hashSHA256    = 2 // CS_HASHTYPE_SHA256
	)
	for _, load := range f.Loads {
		raw := load.Raw()
		if f.ByteOrder.Uint32(raw) != codeSignature {
			continue
		}
		signature := program[f.ByteOrder.Uint32(raw[8:]):]
		word := func(b []byte, at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
		directory := signature[word(signature, 16):]
		if word(signature, 0) != superBlob || word(directory, 0) != codeDirectory || word(directory, 12)&adHoc == 0 || directory[37] != hashSHA256 {
			t.Fatalf("the signature is not one without a certificate: %x", directory[:44])
		}
		hashes, slots, limit, page := directory[word(directory, 16):], int(word(directory, 28)), int(word(directory, 32)), 1<<directory[39]
		if slots != (limit+page-1)/page || limit == 0 {
			t.Fatalf("%d pages of %d bytes are signed, of %d bytes", slots, page, limit)
		}
		for i := range slots {
			if got := sha256.Sum256(program[i*page : min((i+1)*page, limit)]); !bytes.Equal(got[:], hashes[i*32:(i+1)*32]) {
				t.Fatalf("page %d is not the one that was signed", i)
			}
		}
		return
	}
	t.Error("the program has no signature")
}
