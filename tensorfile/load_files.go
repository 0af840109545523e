package tensorfile

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/strictjson"
)

// indexSuffix is the end of the name of an index of several .safetensors files.
const indexSuffix = ".safetensors.index.json"

// maxIndex is the largest size of an index in bytes.
const maxIndex = maxJSON

// shard is a file that is being loaded.
type shard struct {
	path      string
	stream    *stream               // what is loaded is a message, not a file: fd and mapped are nil
	mapped    *mapping              // of file, which owns it
	file      *File                 // nil while its header is being read
	fd        *os.File              // reads through the page cache
	direct    *os.File              // reads past it; nil if that is not done
	alignment int64                 // of memory for direct, in bytes
	before    os.FileInfo           // of the file, before its headers were read
	asItIs    bool                  // some of its bytes are wanted as they are
	byDevice  core.DeviceFile       // the device reads it; nil if it does not
	unable    atomic.Pointer[error] // why the device turned out not to read it; nil if it does
	report    LoadedFile
	wanted    map[string]bool // by the index; nil means all
	ahead     []*group        // that were given to the runner while the header was being read
	found     int             // number of tensors of wanted that the file has
}

// LoadFiles returns the files whose tensors [Load] would load from path, without opening them. It fails as Load does for
// a folder or an index.
func LoadFiles(path string) ([]string, error) {
	list, err := resolve(path, loading)
	return list.files, err
}

// fileList is the files that a path names.
type fileList struct {
	files  []string
	index  string                     // the path of the index that names them; "" if there is none
	wanted map[string]map[string]bool // by file, the tensors that the index names; nil means all
}

// isIndex reports whether path has the name of an index.
func isIndex(path string) bool { return strings.HasSuffix(strings.ToLower(path), indexSuffix) }

// resolve returns the files that path names.
func resolve(path string, at fault) (list fileList, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return list, at.errorf(openError{err}, "the file cannot be opened")
	}
	if info.IsDir() {
		all, err := inFolder(path, at)
		if err != nil || len(all) > 1 {
			return fileList{files: all}, err
		}
		path = all[0]
	}
	if !isIndex(path) {
		return fileList{files: []string{path}}, nil
	}
	byName, err := readIndex(path, at)
	if err != nil {
		return list, err
	}
	list.index, list.wanted = path, make(map[string]map[string]bool, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		file := filepath.Join(filepath.Dir(path), name)
		if list.wanted[file] == nil { // two names may mean one file
			list.files = append(list.files, file)
			list.wanted[file] = make(map[string]bool)
		}
		maps.Copy(list.wanted[file], byName[name])
	}
	return list, nil
}

// because returns an error for one of the files with the name of the index, which says why the file is needed.
func (l fileList) because(err error) error {
	if l.index == "" {
		return err
	}
	return prefixed(err, "a file that the index "+strconv.Quote(l.index)+" names")
}

// checkWanted returns an error for a tensor that the index names and the file does not have.
func checkWanted(path string, wanted map[string]bool, names *nameIndex, at fault) error {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if names.find(name) == nil {
			return at.errorf(core.ErrLayout, "the index says that %s has tensor %s, which it has not", path, quote(name))
		}
	}
	return nil
}

// openFiles opens what path names. r begins to read what it can.
func (l *loader) openFiles(path string, r *runner) error {
	list, err := resolve(path, loading)
	if err != nil {
		return err
	}
	for _, file := range list.files {
		if err := l.openShard(file, list.wanted[file], r); err != nil {
			return list.because(err)
		}
	}
	return nil
}

// inFolder returns the index in a folder or, if there is none, all its .safetensors files.
func inFolder(folder string, at fault) ([]string, error) {
	entries, err := os.ReadDir(folder) // sorted by name
	if err != nil {
		return nil, at.errorf(openError{err}, "the folder cannot be read")
	}
	var indexes, files []string
	for _, e := range entries {
		switch name := strings.ToLower(e.Name()); {
		case isIndex(name):
			indexes = append(indexes, filepath.Join(folder, e.Name()))
		case strings.HasSuffix(name, "."+string(Safetensors)):
			files = append(files, filepath.Join(folder, e.Name()))
		}
	}
	switch {
	case len(indexes) == 1:
		return indexes, nil
	case len(indexes) > 1:
		return nil, at.errorf(core.ErrInvalid, "the folder %s has %d files named *%s: name the one to load", folder, len(indexes), indexSuffix)
	case len(files) == 0:
		return nil, at.errorf(core.ErrInvalid, "the folder %s has no file named *%s or *.safetensors", folder, indexSuffix)
	}
	return files, nil
}

// readIndex returns the names of the tensors by the file that has them.
func readIndex(path string, at fault) (map[string]map[string]bool, error) {
	at.format = Safetensors
	file, size, err := openRegular(path, at)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if size > maxIndex {
		return nil, at.errorf(core.ErrInvalid, "%s has %d bytes; an index has at most %d", path, size, maxIndex)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxIndex))
	if err != nil {
		return nil, at.errorf(because(core.ErrInvalid, err), "%s cannot be read", path)
	}
	files, err := parseIndex(text, at)
	return files, named(err, path)
}

// parseIndex reads the text of an index.
func parseIndex(text []byte, at fault) (map[string]map[string]bool, error) {
	var whole struct {
		Names json.RawMessage `json:"weight_map"`
	}
	if err := strictjson.Unmarshal(text, &whole); err != nil {
		return nil, at.errorf(because(core.ErrInvalid, err), "the index is not a JSON object, or its keys are malformed")
	}
	if whole.Names == nil {
		return nil, at.errorf(core.ErrInvalid, "the index lacks weight_map, which has the file of each tensor")
	}
	files := make(map[string]map[string]bool)
	s := &scanner{text: whole.Names, blank: jsonBlank, at: at}
	err := s.object("weight_map", func(name string) error {
		file, err := s.jsonString("weight_map." + quote(name))
		if err != nil {
			return err
		}
		if !filepath.IsLocal(file) || filepath.Base(file) == "." {
			return at.errorf(core.ErrInvalid, "weight_map has the file %s for tensor %s: it must lie in the folder of the index", quote(file), quote(name))
		}
		if files[file] == nil {
			files[file] = make(map[string]bool)
		}
		files[file][name] = true
		return nil
	})
	if err == nil && len(files) == 0 {
		err = at.errorf(core.ErrInvalid, "weight_map of the index names no tensor")
	}
	return files, err
}

// openShard opens a file. wanted are the tensors that an index names; nil means all.
func (l *loader) openShard(path string, wanted map[string]bool, r *runner) (err error) {
	at := loading
	if f, err := FormatOf(path); err == nil {
		at.format = f
	}
	s := &shard{path: path, wanted: wanted}
	fd, size, err := openRegular(path, at)
	if err != nil {
		return err
	}
	s.fd = fd
	l.shards = append(l.shards, s) // which closes it
	if s.before, err = fd.Stat(); err != nil {
		return at.errorf(openError{err}, "%s", path)
	}
	m, err := mapOpened(fd, size, path, at)
	if err != nil {
		return err
	}
	s.mapped = m
	s.report = LoadedFile{Path: path, Bytes: s.before.Size(), Cached: -1}
	headerSize, readAround := s.onlyHeader()
	l.reserveHeap(headerSize)
	whole := l.all() && wanted == nil // then the map of the result finds names that repeat
	a := &ahead{runner: r, s: s, done: !whole}
	var header []byte
	if h := l.readHeader(s, headerSize); h != nil {
		defer h.Free()
		header = h.data[:headerSize]
	} else if headerSize > 0 {
		s.expect(headerSize)
	}
	s.file, err = open(m, path, opening{OpenOptions{VoidAs: l.options.VoidAs}, a.add, header, whole})
	if err != nil {
		return err
	}
	readAround()
	a.flush()
	return a.err
}

// changed returns the error for a file that is not what it was.
func (s *shard) changed() error {
	return loading.errorf(core.ErrInvalid, "%s was changed while it was loaded: load it again when nobody writes it", s.path)
}

// verify returns an error if the file was changed since it was opened, or if what is left of a message does not arrive. A
// file that was replaced by renaming another one is still the same.
func (s *shard) verify() error {
	if s.stream != nil {
		return s.stream.skip(s.stream.end)
	}
	after, err := s.fd.Stat()
	if err != nil {
		return loading.errorf(openError{err}, "%s", s.path)
	}
	if after.Size() != s.before.Size() || !after.ModTime().Equal(s.before.ModTime()) {
		return s.changed()
	}
	return nil
}

// closeFiles closes all files. Tensors that are the memory of a file keep its mapping.
func (l *loader) closeFiles() {
	for _, s := range l.shards {
		if s.byDevice != nil {
			_ = s.byDevice.Close() // before what it reads
		}
		if s.fd != nil {
			_ = errors.Join(s.fd.Close(), s.closeDirect()) // they were only read
		}
		if s.file != nil {
			_ = s.file.Close()
		}
	}
}

func (s *shard) closeDirect() error {
	if s.direct == nil {
		return nil
	}
	return s.direct.Close()
}
