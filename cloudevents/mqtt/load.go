// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"
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
// The keys are the fields of [Options], all optional but brokerURL; an unknown or repeated key is an error.
// Durations are written as [time.ParseDuration] reads them. A password instead of a file is written in
// quotes. File names that are not absolute are relative to the folder of the YAML file, as in a kubeconfig.
//
// The options are checked as by [New]. Errors name the file and the key, never a password.
func LoadOptions(path string) (Options, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Options{}, fmt.Errorf("MQTT options: %w", err)
	}
	var f optionsFile
	if err := yaml.UnmarshalStrict(content, &f); err != nil {
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
	BrokerURL      string   `json:"brokerURL"`
	ClientID       string   `json:"clientID"`
	Binary         bool     `json:"binary"`
	Username       string   `json:"username"`
	Password       secret   `json:"password"`
	PasswordFile   string   `json:"passwordFile"`
	CAFile         string   `json:"caFile"`
	CertFile       string   `json:"certFile"`
	KeyFile        string   `json:"keyFile"`
	KeepAlive      duration `json:"keepAlive"`
	ConnectTimeout duration `json:"connectTimeout"`
	SessionExpiry  duration `json:"sessionExpiry"`
	MaxPacketSize  uint32   `json:"maxPacketSize"`
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

// secret takes strings only: YAML would read the password 0123 as a number and change it. Its error does not
// repeat the value.
type secret string

// UnmarshalJSON is called by the YAML decoder.
func (s *secret) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, (*string)(s)); err != nil {
		return errors.New("password is not a string: write it in quotes")
	}
	return nil
}

// duration is written as "30s".
type duration time.Duration

// UnmarshalJSON is called by the YAML decoder.
func (d *duration) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("%s is not a duration: write one such as 30s or 1h30m", data)
	}
	parsed, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is not a duration: write one such as 30s or 1h30m", s)
	}
	*d = duration(parsed)
	return nil
}
