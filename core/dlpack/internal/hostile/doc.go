// Package hostile is the other side of DLPack for the tests of package dlpack:
// producers in C that lie, poison what was deleted and count what is done to
// them, and consumers in C that read and delete from threads of their own. Test
// files cannot contain cgo, so it is a package.
package hostile
