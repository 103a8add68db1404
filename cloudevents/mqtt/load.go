// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/internal/yamldoc"
)

// LoadOptions reads options from a YAML file:
//
//	brokerURL: mqtts://broker.example.com:8883
//	clientID: cluster1-agent
//	binary: false
//	username: cluster1
//	passwordFile: password
//	caFile: ca.crt
//	certFile: tls.crt
//	keyFile: tls.key
//	keepAlive: 30s
//	connectTimeout: 10s
//	sessionExpiry: 1h
//	maxPacketSize: 1048576
//
// The keys are the fields of [Options], all optional but brokerURL; an unknown or repeated key is
// an error. Durations are written as [time.ParseDuration] reads them. A password instead of a file
// must be in quotes. File names that are not absolute are relative to the folder of the YAML file,
// as in a kubeconfig.
//
// The options are checked as by [New]. Errors contain the file and the key, never a password.
func LoadOptions(path string) (Options, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Options{}, fmt.Errorf("MQTT options: %w", err)
	}
	f, err := parseOptions(content)
	if err != nil {
		return Options{}, fmt.Errorf("MQTT options in %s: %w", path, err)
	}
	o := f.options(filepath.Dir(path))
	if _, err := o.settings(); err != nil {
		return Options{}, fmt.Errorf("MQTT options in %s: %w", path, err)
	}
	return o, nil
}

// optionsFile is the form of the file.
type optionsFile struct {
	BrokerURL, ClientID, Username            string
	PasswordFile, CAFile, CertFile, KeyFile  string
	Binary                                   bool
	Password                                 secret
	KeepAlive, ConnectTimeout, SessionExpiry duration
	MaxPacketSize                            uint32
}

func (f *optionsFile) keys() map[string]any {
	return map[string]any{
		"brokerURL": &f.BrokerURL, "clientID": &f.ClientID, "binary": &f.Binary,
		"username": &f.Username, "password": &f.Password, "passwordFile": &f.PasswordFile,
		"caFile": &f.CAFile, "certFile": &f.CertFile, "keyFile": &f.KeyFile,
		"keepAlive": &f.KeepAlive, "connectTimeout": &f.ConnectTimeout, "sessionExpiry": &f.SessionExpiry,
		"maxPacketSize": &f.MaxPacketSize,
	}
}

// secondDocument matches a second YAML document, which YAML decoders ignore if they read one
// document.
var secondDocument = regexp.MustCompile(`(?m)\A(?:\s|#.*$|---\s*$)*\S[\s\S]*^---`)

// parseOptions decodes each key separately and case-sensitively. encoding/json would accept keys in
// any case, and its errors would not contain the key.
func parseOptions(content []byte) (optionsFile, error) {
	var f optionsFile
	if secondDocument.Match(content) {
		return f, errors.New("more than one YAML document")
	}
	data, err := yamldoc.StrictJSON(content)
	if err != nil {
		return f, errors.New(f.withoutValues(err.Error()))
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return f, errors.New("not a YAML mapping")
	}
	keys := f.keys()
	for _, key := range slices.Sorted(maps.Keys(members)) {
		into, ok := keys[key]
		if !ok {
			if !word.MatchString(key) {
				key = redacted // such as password:secret, which lacks a space
			}
			known := strings.Join(slices.Sorted(maps.Keys(keys)), ", ")
			return f, fmt.Errorf("unknown key %q: the keys are %s", key, known)
		}
		if err := json.Unmarshal(members[key], into); err != nil {
			var wrong *json.UnmarshalTypeError
			if errors.As(err, &wrong) {
				err = fmt.Errorf("must be a %s, not a %s", wrong.Type, wrong.Value)
			}
			return f, fmt.Errorf("%s: %w", key, err)
		}
	}
	return f, nil
}

var (
	// word matches the characters of a key.
	word = regexp.MustCompile(`^[A-Za-z_-]+$`)
	// quoted matches the quoted parts of a YAML decoder's message.
	quoted = regexp.MustCompile("`[^`]*`|'[^']*'|\"[^\"]*\"")
)

// withoutValues returns the YAML decoder's message without quoted parts of the file, except keys.
// Otherwise an unquoted password that begins with * or ! would be part of it.
func (f *optionsFile) withoutValues(message string) string {
	keys := f.keys()
	return quoted.ReplaceAllStringFunc(message, func(s string) string {
		if _, known := keys[s[1:len(s)-1]]; known || len(s) == 3 { // or a bracket
			return s
		}
		return redacted
	})
}

func (f optionsFile) options(folder string) Options {
	inFolder := func(name string) string {
		if name == "" || filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(folder, name)
	}
	return Options{
		BrokerURL:      f.BrokerURL,
		ClientID:       f.ClientID,
		Binary:         f.Binary,
		Username:       f.Username,
		Password:       string(f.Password),
		PasswordFile:   inFolder(f.PasswordFile),
		CAFile:         inFolder(f.CAFile),
		CertFile:       inFolder(f.CertFile),
		KeyFile:        inFolder(f.KeyFile),
		KeepAlive:      time.Duration(f.KeepAlive),
		ConnectTimeout: time.Duration(f.ConnectTimeout),
		SessionExpiry:  time.Duration(f.SessionExpiry),
		MaxPacketSize:  f.MaxPacketSize,
	}
}

// secret accepts strings only: YAML would read the password 0123 as a number and change it. Its
// error does not repeat the value.
type secret string

// UnmarshalJSON is called by the YAML decoder.
func (s *secret) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, (*string)(s)); err != nil {
		return errors.New("not a string: write it in quotes")
	}
	return nil
}

// duration is written as "30s".
type duration time.Duration

// UnmarshalJSON is called by the YAML decoder.
func (d *duration) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("%s is not a duration: write for example 30s or 1h30m", data)
	}
	parsed, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is not a duration: write for example 30s or 1h30m", s)
	}
	*d = duration(parsed)
	return nil
}
