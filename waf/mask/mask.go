package mask
type Masker struct{}
func (m *Masker) Fragment(name, value string, at int) (string,string) { return name, value }
