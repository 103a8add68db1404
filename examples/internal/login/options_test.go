// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package login_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/login"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

func parse(t *testing.T, args string) (o login.Options, err error) {
	t.Helper()
	listen := ""
	o.Editors = []string{"default"}
	flags := command.NewFlags("server")
	flags.StringVar(&listen, "listen", "127.0.0.1:0", "")
	o.AddFlags(flags)
	if err := flags.Parse(strings.Fields(args)); err != nil {
		return o, err
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		t.Fatal(err)
	}
	err = o.Validate(flags, listen, host)
	return o, err
}

func TestFlags(t *testing.T) {
	const remote = "--listen 0.0.0.0:80 "
	for args, want := range map[string]string{
		"":                      "",
		"--listen localhost:80": "",
		"--token-auth-file f":   "", // loopback
		remote: "add --tls-cert and --tls-key, and a login: --token-auth-file, --user-ca, or " +
			"--proxy-ca",
		remote + "--token-auth-file f":                                  "add --tls-cert and --tls-key",
		remote + "--tls-cert c --tls-key k":                             "a login",
		remote + "--tls-cert c --tls-key k --token-auth-file f":         "",
		remote + "--tls-cert c --tls-key k --user-ca f":                 "",
		remote + "--tls-cert c --tls-key k --proxy-ca f --proxy-name p": "",
		"--tls-cert c":                          "--tls-cert and --tls-key need each other",
		"--user-ca f":                           "--user-ca needs --tls-cert",
		"--proxy-ca f --proxy-name p":           "--proxy-ca needs --tls-cert",
		"--tls-cert c --tls-key k --proxy-ca f": "--proxy-ca and --proxy-name need each other",
		"--proxy-name p":                        "--proxy-ca and --proxy-name need each other",
		"--user-ca=":                            "--user-ca must not be empty",
		"--editor-group=":                       "must not be empty",
	} {
		if _, err := parse(t, args); want == "" && err != nil || want != "" && (err == nil ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
	o, err := parse(t, "--editor-group a --editor-group b")
	if err != nil || strings.Join(o.Editors, " ") != "a b" {
		t.Errorf("%v, %v", o.Editors, err)
	}
}

// TestUserCAMustNotBeThatOfAgents checks the same CA, a bundle, and an agents' CA that a CA of users has
// issued.
func TestUserCAMustNotBeThatOfAgents(t *testing.T) {
	folder, users, agents := t.TempDir(), certtest.New(t), certtest.New(t)
	file := filepath.Join(folder, "file.crt")
	root, below := chain(t)
	issuedBelow := filepath.Join(folder, "below.crt")
	if err := os.WriteFile(issuedBelow, below, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ reason, content, want string }{
		{"another CA", users.PEM, ""},
		{"the CA of agents", agents.PEM, "agents could log in as users"},
		{"the issuer of the CA of agents", string(root), "agents could log in as users"},
		{"both", users.PEM + agents.PEM, "agents could log in as users"},
		{"no CA", "text", "contains no certificate"},
		{"a part of a CA", users.PEM + agents.PEM[:100], "ends within a certificate"},
	} {
		if err := os.WriteFile(file, []byte(row.content), 0o600); err != nil {
			t.Fatal(err)
		}
		for option, o := range map[string]login.Options{
			"--user-ca": {UserCAFile: file}, "--proxy-ca": {ProxyCAFile: file},
		} {
			o.OtherCAFiles = []string{agents.Write(t, folder, "agents")}
			if row.reason == "the issuer of the CA of agents" {
				o.OtherCAFiles = append(o.OtherCAFiles, issuedBelow)
			}
			err := o.CheckFiles()
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want) ||
				!strings.HasPrefix(err.Error(), option+" ")) {
				t.Errorf("%s: %v, want %q", row.reason, err, row.want)
			}
		}
	}
}

// chain returns a CA, and another one that it has issued.
func chain(t *testing.T) (root, below []byte) {
	t.Helper()
	var parent *x509.Certificate
	var parentKey *ecdsa.PrivateKey
	for _, out := range []*[]byte{&root, &below} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: fmt.Sprint("CA ", parent == nil)}, IsCA: true,
			BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}
		if parent == nil {
			parent, parentKey = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
		if err == nil && parent == template {
			parent, err = x509.ParseCertificate(der)
		}
		if err != nil {
			t.Fatal(err)
		}
		*out = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	return root, below
}

func TestAdminFile(t *testing.T) {
	o := login.Options{AdminFile: filepath.Join(t.TempDir(), "admin.token")}
	if err := o.CreateAdmin(); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(o.AdminFile)
	if info, _ := os.Stat(o.AdminFile); err != nil || info.Mode() != 0o600 || len(first) < 50 {
		t.Errorf("%d bytes, %v, %v", len(first), info.Mode(), err)
	}
	if err := o.CreateAdmin(); err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(o.AdminFile); err != nil || string(second) != string(first) {
		t.Errorf("the token was replaced: %v", err)
	}
}
