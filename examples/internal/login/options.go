// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/client-go/util/cert"

	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/internal/atomicfile"
	"github.com/spokewire/sdk-go/internal/httpserve"
	"github.com/spokewire/sdk-go/internal/tlsfiles"
)

// Options are the flags of a server with logins. Files are PEM, except TokenFile.
type Options struct {
	// CertFile and KeyFile enable HTTPS.
	CertFile, KeyFile string
	// UserCAFile has the CAs of client certificates. The user is the common name, its groups are the
	// organizations.
	UserCAFile string
	// TokenFile has tokens in the format of kube-apiserver's --token-auth-file.
	TokenFile string
	// ProxyCAFile has the CAs of the certificates of trusted proxies, and ProxyNames their common
	// names.
	ProxyCAFile string
	ProxyNames  []string
	// Editors and Viewers are groups.
	Editors, Viewers []string

	// AdminFile has one token of an editor, or is empty.
	AdminFile string
	// OtherCAFiles have CAs that must not issue certificates of users, such as those of agents.
	OtherCAFiles []string
}

// AddFlags adds the flags. Editors and Viewers are the defaults of their flags.
func (o *Options) AddFlags(flags command.Flags) {
	flags.StringVar(&o.CertFile, "tls-cert", "", "")
	flags.StringVar(&o.KeyFile, "tls-key", "", "")
	flags.StringVar(&o.UserCAFile, "user-ca", "", "")
	flags.StringVar(&o.TokenFile, "token-auth-file", "", "")
	flags.StringVar(&o.ProxyCAFile, "proxy-ca", "", "")
	for name, list := range map[string]*[]string{
		"proxy-name": &o.ProxyNames, "editor-group": &o.Editors, "viewer-group": &o.Viewers,
	} {
		given := false
		flags.Func(name, "", func(value string) error {
			if value == "" {
				return errors.New("must not be empty")
			}
			if !given {
				*list, given = nil, true
			}
			*list = append(*list, value)
			return nil
		})
	}
}

// Validate checks the flags of a server that listens on a host. Without logins, a server may only
// listen on a loopback address.
func (o *Options) Validate(flags command.Flags, listen, host string) error {
	if err := flags.NotEmpty("tls-cert", "tls-key", "user-ca", "token-auth-file", "proxy-ca"); err != nil {
		return err
	}
	switch {
	case (o.CertFile == "") != (o.KeyFile == ""):
		return errors.New("--tls-cert and --tls-key need each other")
	case o.UserCAFile != "" && o.CertFile == "":
		return errors.New("--user-ca needs --tls-cert and --tls-key")
	case o.ProxyCAFile != "" && o.CertFile == "":
		return errors.New("--proxy-ca needs --tls-cert and --tls-key")
	case (o.ProxyCAFile == "") != (len(o.ProxyNames) == 0):
		return errors.New("--proxy-ca and --proxy-name need each other")
	case httpserve.Loopback(host):
		return nil
	case o.CertFile == "" || !o.configured():
		return fmt.Errorf("--listen %s can be reached from other machines: add --tls-cert and --tls-key, and a login: "+
			"--token-auth-file, --user-ca, or --proxy-ca with --proxy-name. Or use a loopback address", listen)
	}
	return nil
}

// configured reports whether a flag configures a login.
func (o *Options) configured() bool {
	return o.UserCAFile != "" || o.TokenFile != "" || o.ProxyCAFile != ""
}

// CheckFiles returns an error with the flag if a file is invalid.
func (o *Options) CheckFiles() error {
	if o.CertFile != "" {
		if _, err := tlsfiles.Pair(o.CertFile, o.KeyFile); err != nil {
			return tlsfiles.OptionNames{"CertFile": "--tls-cert", "KeyFile": "--tls-key"}.Error(err)
		}
	}
	for option, file := range map[string]string{"--user-ca": o.UserCAFile, "--proxy-ca": o.ProxyCAFile} {
		if file == "" {
			continue
		}
		if _, err := o.authorities(option, file); err != nil {
			return err
		}
	}
	if o.TokenFile == "" {
		return nil
	}
	if _, err := tokenfile.NewCSV(o.TokenFile); err != nil {
		return fmt.Errorf("--token-auth-file: %w", err)
	}
	return nil
}

// authorities reads the CAs of an option. It returns an error if a certificate of another purpose
// would be accepted as that of a user.
func (o *Options) authorities(option, file string) (*x509.CertPool, error) {
	pool, err := tlsfiles.Authorities(option, file)
	if err != nil {
		return nil, err
	}
	own, err := cert.CertsFromFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", option, err)
	}
	for _, other := range o.OtherCAFiles {
		authorities, err := cert.CertsFromFile(other)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be compared with the CAs of agents: %w", option, err)
		}
		for _, a := range authorities {
			_, err := a.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
			same := err == nil // or issued by one of them
			for _, c := range own {
				same = same || bytes.Equal(c.RawSubjectPublicKeyInfo, a.RawSubjectPublicKeyInfo)
			}
			if same {
				return nil, fmt.Errorf("%s %s accepts certificates of the CA in %s: agents could log in as users: use "+
					"another CA", option, file, other)
			}
		}
	}
	return pool, nil
}

// TLS returns the configuration of the server, or nil without HTTPS. Files are read again for each
// connection.
func (o *Options) TLS() *tls.Config {
	if o.CertFile == "" {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			pair, err := tlsfiles.Pair(o.CertFile, o.KeyFile)
			if err != nil {
				return nil, err
			}
			// Verification is that of the authenticators. A resumed session would rely on the first one.
			c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*pair}, SessionTicketsDisabled: true}
			if file := cmp.Or(o.ProxyCAFile, o.UserCAFile); file != "" {
				c.ClientAuth = tls.RequestClientCert
			}
			if o.UserCAFile != "" { // so that browsers offer only certificates of these CAs
				c.ClientCAs, _ = tlsfiles.Authorities("--user-ca", o.UserCAFile)
			}
			if content, err := os.ReadFile(o.ProxyCAFile); c.ClientCAs != nil && err == nil {
				c.ClientCAs.AppendCertsFromPEM(content)
			}
			return c, nil
		},
	}
}

// Peer returns the configuration of a client of another replica with the same certificate, or nil
// without HTTPS. The certificate need not have the address of the replica.
func (o *Options) Peer() *tls.Config {
	if o.CertFile == "" {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, // VerifyConnection does
		VerifyConnection: func(state tls.ConnectionState) error {
			own, err := tlsfiles.Pair(o.CertFile, o.KeyFile)
			if err == nil && !bytes.Equal(own.Leaf.RawSubjectPublicKeyInfo, state.PeerCertificates[0].RawSubjectPublicKeyInfo) {
				err = errors.New("the other replica has another --tls-cert")
			}
			return err
		},
	}
}

// CreateAdmin writes a token to AdminFile if the file does not exist.
func (o *Options) CreateAdmin() error {
	if _, err := os.Stat(o.AdminFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return atomicfile.Write(o.AdminFile, []byte(rand.Text()+rand.Text()+"\n"), 0o600)
}
