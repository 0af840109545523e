package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	containerArgs = regexp.MustCompile(`(?m)^ +args: \[(.*)\]$`)
	socketMount   = regexp.MustCompile(`(?m)^ +- \{name: sockets, mountPath: /sockets\}$`)
	socketVolume  = regexp.MustCompile(`(?m)^ +- name: sockets\n +(.*)$`)
)

// The commands of the example for Kubernetes pass tensors, once its folders are those of this
// machine: all containers mount the volume of the socket, and pods of one node use one folder.
// make test-docker compares the file with the schema.
func TestTheKubernetesExample(t *testing.T) {
	content, err := os.ReadFile("../../docker/kubernetes-share.yaml")
	if err != nil {
		t.Fatal(err)
	}
	folders := make(map[string]int)
	var lines []string // of all containers, in pairs that pass tensors to each other
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		args := containerArgs.FindAllStringSubmatch(document, -1)
		if len(args) == 0 || len(args) != strings.Count(document, "image: dlx:") || len(args) != len(socketMount.FindAllString(document, -1)) {
			t.Errorf("a container has no command, or does not mount the folder of the socket:\n%s", document)
		}
		for _, a := range args {
			lines = append(lines, strings.ReplaceAll(a[1], ",", ""))
		}
		volume := socketVolume.FindStringSubmatch(document)
		if volume == nil {
			t.Fatalf("no volume for the socket:\n%s", document)
		}
		if strings.HasPrefix(volume[1], "emptyDir:") != (len(args) == 2) { // an emptyDir is that of one pod
			t.Errorf("%d containers with the volume %s", len(args), volume[1])
		}
		folders[volume[1]] += len(args)
	}
	for folder, n := range folders {
		if n != 2 {
			t.Errorf("%d containers use the folder %s", n, folder)
		}
	}
	if len(lines) != 4 {
		t.Fatalf("%q", lines)
	}
	for i := 0; i < len(lines); i += 2 {
		receive, send := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		socket := filepath.Join(t.TempDir(), "dlx.sock")
		for j := range receive {
			receive[j] = strings.Replace(receive[j], "/sockets/dlx.sock", socket, 1)
		}
		for j := range send {
			send[j] = strings.Replace(strings.Replace(send[j], "/sockets/dlx.sock", socket, 1), "/data/", "../../testdata/", 1)
		}
		done := make(chan outcome, 1)
		go func() { done <- dlx(t, append(receive, "--json")...) }()
		awaitSocket(socket)
		sent := dlx(t, append(send, "--json")...)
		received := <-done
		if sent.code != exitOK || received.code != exitOK {
			t.Fatalf("exit codes %d and %d:\n%s%s", sent.code, received.code, sent.stderr, received.stderr)
		}
		if r := decode[sharedResult](t, received, "receive"); len(r.Tensors) == 0 || r.BytesCopied != 0 || !*r.Tensors[0].Verified {
			t.Errorf("%+v", r)
		}
	}
}
