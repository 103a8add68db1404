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
// The keys are the fields of [Options] except TLS, all optional but brokerURL; an unknown or
// repeated key is an error. Durations are written as [time.ParseDuration] reads them. Write the
// password in quotes: it must be a string, and YAML reads 0123 as a number. File names that are not
// absolute are relative to the folder of the YAML file, as in a kubeconfig.
//
// The options are checked as by [New]. Errors contain the file and the key, never a password.
func LoadOptions(path string) (Options, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Options{}, fmt.Errorf("MQTT options: %w", err)
	}
	var o Options
	if err := o.parse(content); err != nil {
		return Options{}, fmt.Errorf("MQTT options in %s: %w", path, err)
	}
	for _, name := range []*string{&o.PasswordFile, &o.CAFile, &o.CertFile, &o.KeyFile} {
		if *name != "" && !filepath.IsAbs(*name) {
			*name = filepath.Join(filepath.Dir(path), *name)
		}
	}
	if _, err := o.settings(); err != nil {
		return Options{}, fmt.Errorf("MQTT options in %s: %w", path, err)
	}
	return o, nil
}

func (o *Options) keys() map[string]any {
	return map[string]any{
		"brokerURL": &o.BrokerURL, "clientID": &o.ClientID, "binary": &o.Binary,
		"username": &o.Username, "password": (*secret)(&o.Password), "passwordFile": &o.PasswordFile,
		"caFile": &o.CAFile, "certFile": &o.CertFile, "keyFile": &o.KeyFile,
		"keepAlive": (*duration)(&o.KeepAlive), "connectTimeout": (*duration)(&o.ConnectTimeout),
		"sessionExpiry": (*duration)(&o.SessionExpiry), "maxPacketSize": &o.MaxPacketSize,
	}
}

// secondDocument matches a second YAML document, which a decoder of one document ignores.
var secondDocument = regexp.MustCompile(`(?m)\A(?:\s|#.*$|---\s*$)*\S[\s\S]*^---`)

// parse decodes each key separately and case-sensitively. encoding/json would accept keys in any
// case, and its errors would not contain the key.
func (o *Options) parse(content []byte) error {
	if secondDocument.Match(content) {
		return errors.New("more than one YAML document")
	}
	keys := o.keys()
	data, err := yamldoc.StrictJSON(content)
	if err != nil {
		return errors.New(withoutValues(err.Error(), keys))
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return errors.New("not a YAML mapping")
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		into, ok := keys[key]
		if !ok {
			if !word.MatchString(key) {
				key = redacted // such as password:secret, which lacks a space
			}
			known := strings.Join(slices.Sorted(maps.Keys(keys)), ", ")
			return fmt.Errorf("unknown key %q: the keys are %s", key, known)
		}
		if err := json.Unmarshal(members[key], into); err != nil {
			var wrong *json.UnmarshalTypeError
			if errors.As(err, &wrong) {
				err = fmt.Errorf("must be a %s, not a %s", wrong.Type, wrong.Value)
			}
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

var (
	// word matches the characters of a key.
	word = regexp.MustCompile(`^[A-Za-z_-]+$`)
	// quoted matches the quoted parts of a YAML decoder's message.
	quoted = regexp.MustCompile("`[^`]*`|'[^']*'|\"[^\"]*\"")
)

// withoutValues returns the YAML decoder's message without quoted parts of the file, except keys.
// Otherwise an unquoted password that begins with * or ! would be part of it.
func withoutValues(message string, keys map[string]any) string {
	return quoted.ReplaceAllStringFunc(message, func(s string) string {
		if _, known := keys[s[1:len(s)-1]]; known || len(s) == 3 { // or a bracket
			return s
		}
		return redacted
	})
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
