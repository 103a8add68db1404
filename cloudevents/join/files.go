// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spokewire/sdk-go/internal/atomicfile"
)

// Files are the files of an agent.
type Files struct {
	// CA has the CAs of the hub and its broker.
	CA string
	// Cert and Key are one file, so that both are replaced together.
	Cert, Key string
}

// FilesIn returns the files that [Join] writes to a folder.
func FilesIn(dir string) Files {
	both := filepath.Join(dir, "client.pem")
	return Files{CA: filepath.Join(dir, "ca.crt"), Cert: both, Key: both}
}

const (
	hubFile     = "hub.json" // a [hub]
	pendingFile = "join.key" // the key of a join without an answer
)

// hub is where a folder was joined.
type hub struct {
	URL     string `json:"url"`
	Cluster string `json:"cluster"`
}

// ClusterIn returns the cluster of the certificate in a folder.
func ClusterIn(dir string) (string, error) {
	h, err := readHub(dir)
	return h.Cluster, err
}

func readHub(dir string) (h hub, err error) {
	file := filepath.Join(dir, hubFile)
	content, err := os.ReadFile(file)
	if err != nil {
		return hub{}, fmt.Errorf("the folder has no certificate of a join: join first: %w", err)
	}
	if err := json.Unmarshal(content, &h); err != nil {
		return hub{}, fmt.Errorf("%s: %w: join again", file, err)
	}
	return h, nil
}

// current returns the certificate in a folder.
func current(dir string) (*x509.Certificate, *tls.Certificate, error) {
	files := FilesIn(dir)
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w: join again", files.Cert, err)
	}
	return pair.Leaf, &pair, nil
}

// store writes the answer of the hub. The certificate is written last.
func (a *answer) store(dir, url string, key []byte) error {
	where, err := json.Marshal(hub{URL: url, Cluster: a.Cluster})
	if err != nil {
		return err
	}
	files := FilesIn(dir)
	return errors.Join(
		atomicfile.Write(files.CA, []byte(a.CA), 0o644),
		atomicfile.Write(filepath.Join(dir, hubFile), append(where, '\n'), 0o644),
		atomicfile.Write(files.Cert, append([]byte(a.Certificate), key...), 0o600),
	)
}
