package tensorfile_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

const endRecord = 22 // bytes of an archive's end record, without a comment

// change returns a copy of data with some bytes changed.
func change(data []byte, f func([]byte)) []byte {
	data = bytes.Clone(data)
	f(data)
	return data
}

// damaged is an archive that is not what it was.
type damaged struct {
	what string
	data []byte
}

// damagedArchives makes damaged copies of an archive: cut at every byte, with a byte of
// its directory changed, with a part of its end record zeroed.
func damagedArchives(whole []byte) []damaged {
	var all []damaged
	for n := range whole {
		all = append(all, damaged{"cut", whole[:n]})
	}
	directory := int(binary.LittleEndian.Uint32(whole[len(whole)-6:]))
	for i := directory; i < len(whole); i++ {
		for _, v := range []byte{0, 0xff, whole[i] ^ 1, whole[i] ^ 0x80} {
			if v != whole[i] {
				all = append(all, damaged{"byte", change(whole, func(b []byte) { b[i] = v })})
			}
		}
	}
	for i := len(whole) - endRecord; i < len(whole); i++ {
		for j := i + 2; j <= len(whole); j++ {
			all = append(all, damaged{"zeroes", change(whole, func(b []byte) { clear(b[i:j]) })})
		}
	}
	return all
}

// archives are one with stored members and one with compressed ones.
func archives(t *testing.T) map[string][]byte {
	t.Helper()
	tensors := []tensorfile.Named{{Name: "a", Tensor: filled(t, core.TypeFloat32, 5)}, {Name: "bb", Tensor: filled(t, core.TypeInt8, 2, 3)}}
	return map[string][]byte{
		"stored":     written(t, tensorfile.NPZ, tensors),
		"compressed": written(t, tensorfile.NPZ, tensors, tensorfile.WriteOptions{Compress: true}),
		"one":        written(t, tensorfile.NPZ, tensors[:1]),
	}
}

// sameAs reports whether an archive holds the tensors of another one, and the error if
// it cannot be read.
func sameAs(t *testing.T, data, whole []byte) (same bool, err error) {
	t.Helper()
	f, err := tensorfile.Parse(data, "x.npz", tensorfile.OpenOptions{})
	if err != nil {
		return false, err
	}
	defer f.Close()
	want := must[*tensorfile.File](t)(tensorfile.Parse(whole, "x.npz", tensorfile.OpenOptions{}))
	if len(f.Tensors()) != len(want.Tensors()) {
		return false, nil
	}
	for _, info := range want.Tensors() {
		x, err := f.Tensor(info.Name)
		if err != nil {
			return false, err
		}
		defer x.Close()
		y := must[*core.Tensor](t)(want.Tensor(info.Name))
		if x.DType() != y.DType() || !x.Layout().Equal(y.Layout()) || !bytes.Equal(elements(t, x), elements(t, y)) {
			return false, nil
		}
	}
	return true, nil
}

// An archive whose directory or end is damaged is an error, or is read as if it were
// not: never as one of fewer tensors.
func TestADamagedArchiveIsAnErrorOrReadWhole(t *testing.T) {
	for name, whole := range archives(t) {
		for i, d := range damagedArchives(whole) {
			same, err := sameAs(t, d.data, whole)
			var typed *core.Error
			switch {
			case err != nil && !errors.As(err, &typed):
				t.Errorf("%s, %s %d: untyped error %v", name, d.what, i, err)
			case err == nil && !same:
				t.Errorf("%s, %s %d: it is read as another archive", name, d.what, i)
			}
		}
	}
}

func TestDamageThatOnceWasAnEmptyArchive(t *testing.T) {
	whole := archives(t)["stored"]
	end := len(whole) - endRecord
	empty := append([]byte("PK\x05\x06"), make([]byte, endRecord-4)...)
	for _, c := range []struct {
		name  string
		data  []byte
		field string
	}{
		{"the end record is zeroed behind its signature", change(whole, func(b []byte) { clear(b[end+4:]) }), "bytes are before it"},
		{"the end record lost its count, size and offset", change(whole, func(b []byte) { clear(b[end+8 : end+20]) }), "bytes are before it"},
		{"the end record lost its count and its offset is wrong", change(whole, func(b []byte) { clear(b[end+8 : end+12]); b[end+16]++ }), "central directory"},
		{"it was cut inside an array that holds an end record", append(bytes.Clone(whole[:200]), empty...), "bytes are before it"},
		{"an empty archive was appended", append(bytes.Clone(whole), empty...), "bytes are before it"},
		{"the count is too small", change(whole, func(b []byte) { b[end+8]--; b[end+10]-- }), "central directory"},
		{"the size is too small", change(whole, func(b []byte) { b[end+12]-- }), "end record"},
		{"the size is 0", change(whole, func(b []byte) { clear(b[end+12 : end+16]) }), "end record"},
		{"a local header has another name", bytes.Replace(whole, []byte("bb.npy"), []byte("bc.npy"), 1), "another name"},
		{"the comment is cut short", change(whole, func(b []byte) { b[end+20] = 1 }), "directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := tensorfile.Parse(c.data, "x.npz", tensorfile.OpenOptions{})
			checkError(t, err, tensorfile.NPZ, core.ErrInvalid, c.field)
		})
	}
}

func TestArchivesWithMoreAroundThemAreRead(t *testing.T) {
	whole := archives(t)["stored"]
	end := len(whole) - endRecord
	directory := binary.LittleEndian.Uint32(whole[end+16:])
	with64 := change(whole[:end], func([]byte) {})
	with64 = append(with64, "PK\x06\x06"...)
	with64 = binary.LittleEndian.AppendUint64(with64, 44)
	with64 = append(with64, 45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	for _, v := range []uint64{2, 2, uint64(end) - uint64(directory), uint64(directory)} {
		with64 = binary.LittleEndian.AppendUint64(with64, v)
	}
	with64 = append(with64, "PK\x06\x07\x00\x00\x00\x00"...)
	with64 = binary.LittleEndian.AppendUint64(with64, uint64(end))
	with64 = append(with64, 1, 0, 0, 0)
	with64 = append(with64, change(whole[end:], func(b []byte) { copy(b[8:], "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff") })...)
	for name, data := range map[string][]byte{
		"as it was":               whole,
		"something before it":     append([]byte("#!/bin/sh\n"), whole...),
		"something behind it":     append(bytes.Clone(whole), "more"...),
		"a comment":               append(change(whole, func(b []byte) { b[end+20] = 4 }), "text"...),
		"an end record of ZIP64":  with64,
		"and something before it": append([]byte("#!/bin/sh\n"), with64...),
	} {
		if same, err := sameAs(t, data, whole); name != "and something before it" && (err != nil || !same) {
			t.Errorf("%s: %v", name, err)
		} else if err == nil && !same {
			t.Errorf("%s: it is read as another archive", name)
		}
	}
	empty := written(t, tensorfile.NPZ, nil)
	for name, data := range map[string][]byte{
		"empty":                empty,
		"empty with a comment": append(change(empty, func(b []byte) { b[20] = 4 }), "text"...),
		"empty, and more":      append(bytes.Clone(empty), "more"...),
	} {
		if f := must[*tensorfile.File](t)(tensorfile.Parse(data, "x.npz", tensorfile.OpenOptions{})); len(f.Tensors()) != 0 {
			t.Errorf("%s: %+v", name, f.Tensors())
		}
	}
}

// What Python's zipfile refuses to open is no archive here, unless all of it is there.
func TestZipfileAndThisPackageAgreeOnDamage(t *testing.T) {
	python := os.Getenv("DLX_PYTHON")
	if python == "" {
		t.Skip("DLX_PYTHON is not set: it names a Python")
	}
	for name, whole := range archives(t) {
		all := damagedArchives(whole)
		var contents [][]byte
		for _, d := range all {
			contents = append(contents, d.data)
		}
		text, err := json.Marshal(contents)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "damaged.json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), python, "-c", `
import base64, io, json, sys, zipfile
for data in json.load(open(sys.argv[1])):
    try:
        archive = zipfile.ZipFile(io.BytesIO(base64.b64decode(data)))
        print("opened", *archive.namelist())
    except zipfile.BadZipFile as e:
        print("refused", e)
    except Exception as e:
        print("other", e)
`, path).Output()
		if err != nil {
			t.Fatal(err)
		}
		answers := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		if len(answers) != len(all) {
			t.Fatalf("%d answers to %d archives", len(answers), len(all))
		}
		refused := 0
		for i, d := range all {
			if !strings.HasPrefix(answers[i], "refused") {
				continue
			}
			refused++
			if same, err := sameAs(t, d.data, whole); err == nil && !same {
				t.Errorf("%s, %s %d: zipfile says %q, and here it is read as another archive", name, d.what, i, answers[i])
			}
		}
		t.Logf("%s: zipfile refuses %d of %d", name, refused, len(all))
	}
}
