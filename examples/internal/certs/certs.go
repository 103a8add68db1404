// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package certs has the command certs: it makes the certificates of a first installation, for a
// program that agents join, its broker and its agents.
package certs

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spokewire/sdk-go/cloudevents/join"
	"github.com/spokewire/sdk-go/cloudevents/mqtt/dynsec"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/commands"
	"github.com/spokewire/sdk-go/internal/atomicfile"
)

// usage has the name of the program.
const usage = `Usage: %[1]s certs --name HOST [flags]

Makes the certificates for a first installation, in a folder for %[1]s --certs. Existing files stay
unchanged: to replace a certificate, remove its two files and run the command again.

  ca.crt, ca.key          the CA, for ten years. Whoever has its key can act as any cluster
  %[1]s.crt, %[1]s.key        the certificate of the %[1]s, for a year
  broker.crt, broker.key  the certificate of the broker, with --broker-name, for a year
  client.crt, client.key  the certificate of the %[1]s for the broker, with --broker-name, for a year
  dynamic-security.json   the rights of the %[1]s for Mosquitto's dynamic security, with --broker-name

  --dir DIR          the folder (default %[1]s-certs)
  --name HOST        a name or IP address of the %[1]s; repeat the flag for more
  --broker-name HOST a name or IP address of the broker; repeat the flag for more
  --source ID        the source ID of the %[1]s, the name in its certificate for the broker (default
                     %[1]s)
  --help             show this help
`

// Dir is a folder with certificates, as the command writes them.
type Dir string

// Cert returns the file of a certificate: that of the program, "ca", "broker" or "client".
func (d Dir) Cert(name string) string { return filepath.Join(string(d), name+".crt") }

// Key returns the file of the key of a certificate.
func (d Dir) Key(name string) string { return filepath.Join(string(d), name+".key") }

type options struct {
	program       string
	dir           Dir
	names, broker []string
	source        string
}

// Command returns the command of a program.
func Command(program string) *cobra.Command {
	return commands.Of("certs", "make the certificates for a first installation",
		func(_ context.Context, args []string, stdout, stderr io.Writer) int {
			p := command.Program[options]{Name: program + " certs", Usage: fmt.Sprintf(usage, program)}
			p.Parse = func(args []string) (options, error) { return parse(program, args) }
			return p.Run(args, stdout, stderr, func(o options) error { return o.write(stdout) })
		})
}

func parse(program string, args []string) (o options, err error) {
	o.program = program
	flags := command.NewFlags(program + " certs")
	flags.StringVar((*string)(&o.dir), "dir", program+"-certs", "")
	flags.StringVar(&o.source, "source", program, "")
	for name, list := range map[string]*[]string{"name": &o.names, "broker-name": &o.broker} {
		flags.Func(name, "", func(host string) error {
			if host == "" || strings.ContainsAny(host, "/: ") && !strings.Contains(host, "::") {
				return errors.New("must be a name or an IP address, without port")
			}
			*list = append(*list, host)
			return nil
		})
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if len(o.names) == 0 {
		return o, errors.New("--name is required: the name of the " + program + " in the URL that agents use")
	}
	return o, errors.Join(flags.NotEmpty("dir"), codec.ValidateName("--source", o.source))
}

// write makes the certificates that do not exist.
func (o options) write(stdout io.Writer) error {
	if err := os.MkdirAll(string(o.dir), 0o700); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	var ca *join.Authority
	err := o.pair(stdout, "ca", func() (cert, key []byte, err error) {
		if ca, err = join.CreateAuthority(o.source + " CA"); err != nil {
			return nil, nil, err
		}
		return ca.PEM()
	})
	if err == nil {
		ca, err = join.LoadAuthority(o.dir.Cert("ca"), o.dir.Key("ca"))
	}
	if err == nil {
		err = o.pair(stdout, o.program, func() (cert, key []byte, err error) { return ca.Server(o.names...) })
	}
	if err == nil && len(o.broker) > 0 {
		err = errors.Join(
			o.pair(stdout, "broker", func() (cert, key []byte, err error) { return ca.Server(o.broker...) }),
			o.pair(stdout, "client", func() (cert, key []byte, err error) { return ca.Client(o.source) }),
			o.rights(stdout),
		)
	}
	return err
}

// rights writes the file of Mosquitto's dynamic security.
func (o options) rights(stdout io.Writer) error {
	file := filepath.Join(string(o.dir), "dynamic-security.json")
	if _, err := os.Stat(file); err == nil {
		fmt.Fprintf(stdout, "kept     %s\n", file)
		return nil
	}
	if err := atomicfile.Write(file, dynsec.Config(o.source, "CN="+o.source), 0o600); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "created  %s\n", file)
	return nil
}

// pair writes a certificate and its key. The key is written first: a certificate has a key.
func (o options) pair(stdout io.Writer, name string, make func() (cert, key []byte, err error)) error {
	cert, key := o.dir.Cert(name), o.dir.Key(name)
	if content, err := os.ReadFile(cert); err == nil {
		expires := "it cannot be read"
		if block, _ := pem.Decode(content); block != nil {
			if parsed, err := x509.ParseCertificate(block.Bytes); err == nil {
				expires = "it expires " + parsed.NotAfter.UTC().Format(time.DateOnly)
			}
		}
		fmt.Fprintf(stdout, "kept     %s: %s\n", cert, expires)
		return nil
	}
	certPEM, keyPEM, err := make()
	if err == nil {
		err = atomicfile.Write(key, keyPEM, 0o600)
	}
	if err == nil {
		err = atomicfile.Write(cert, certPEM, 0o644)
	}
	if err == nil {
		fmt.Fprintf(stdout, "created  %s, %s\n", cert, key)
	}
	return err
}
