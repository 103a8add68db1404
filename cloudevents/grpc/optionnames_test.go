// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

// TestErrorsHaveOptionNames checks that errors of clients name the flags of a program.
func TestErrorsHaveOptionNames(t *testing.T) {
	s := newSecure(t)
	missing := filepath.Join(s.folder, "missing")
	for _, test := range []struct {
		options grpc.Options
		want    string
	}{
		{grpc.Options{Address: "hub"}, `invalid --hub: "hub": write host:port`},
		{grpc.Options{Address: s.addr, CAFile: missing, Insecure: true}, "--hub-ca is set with --hub-insecure"},
		{grpc.Options{Address: s.addr, CAFile: missing}, "--hub-ca: open " + missing},
		{grpc.Options{Address: s.addr, TokenFile: missing}, "--hub-token-file: open " + missing},
		{grpc.Options{Address: s.addr, CertFile: missing, KeyFile: missing}, "--hub-cert " + missing},
		{grpc.Options{Address: s.addr, CAFile: certtest.New(t).Write(t, s.folder, "other")}, "check --hub-ca, it must"},
		{grpc.Options{Address: s.addr, Insecure: true}, "if it uses TLS, remove --hub-insecure"},
	} {
		test.options.OptionNames = map[string]string{
			"Address": "--hub", "CAFile": "--hub-ca", "CertFile": "--hub-cert", "KeyFile": "--hub-key",
			"TokenFile": "--hub-token-file", "Insecure": "--hub-insecure",
		}
		transport, err := grpc.New(test.options)
		if err == nil {
			err = transport.CheckFiles()
		}
		if err == nil {
			err = connectWith(t, test.options, ownFilter)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

// TestErrorsOfServersHaveOptionNames checks that errors of servers name the flags of a program.
func TestErrorsOfServersHaveOptionNames(t *testing.T) {
	ca, folder := certtest.New(t), t.TempDir()
	cert, key := ca.Issue(t, "hub").Write(t, folder, "hub")
	missing := filepath.Join(folder, "missing")
	for _, test := range []struct {
		options grpc.ServerOptions
		want    string
	}{
		{grpc.ServerOptions{ClientCAFile: missing}, "--grpc-client-ca is set without --grpc-cert and --grpc-key"},
		{grpc.ServerOptions{CertFile: missing, KeyFile: key}, "--grpc-cert " + missing},
		{grpc.ServerOptions{CertFile: cert, KeyFile: key, ClientCAFile: missing}, "--grpc-client-ca: open " + missing},
	} {
		test.options.OptionNames = map[string]string{
			"ClientCAFile": "--grpc-client-ca", "CertFile": "--grpc-cert", "KeyFile": "--grpc-key",
		}
		server, err := grpc.NewServer(test.options)
		if err == nil {
			err = server.CheckFiles()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}
